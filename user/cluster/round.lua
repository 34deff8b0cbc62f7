-- One round of one node for one shard: all its sources at once, in one step of the store.
--
-- KEYS  1 the node's last sequence number   2 when this data began   3 sources that are thinned somewhere   4.. states
-- ARGV  1 sequence number   2 filter's time constant, us   3 cap of a debt, us   4 life of a state, ms
--       5 "1": answer with the thinned sources   6 length of what all state keys begin with
--       then for each state: limit per second, admitted, offered, 0
--       or, of a window: -its length in ms, admitted in the window, offered, the window's number
-- Answer: begin of the data, seconds, microseconds, 1 if the round counted, then for each state
--       debt in us, demand * 1000, 0   or   count of the window, demand * 1000, count of the one before
--       or -1, 0, 0: the key holds something that is not ours; and last the thinned sources.
--
-- A round that comes again under the same number changes nothing: so a node whose round got no answer may repeat it.
-- Only amounts come in, never a node's clock. Every key gets a life, also one that was here without.

local call, exp, floor, pack, unpack_from = redis.call, math.exp, math.floor, struct.pack, struct.unpack
local tm = call('TIME')
local now = tm[1] * 1000000 + tm[2]
local now_ms = math.floor(now / 1000)
local filter, cap, life = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local per = 1000000 / filter

local function text(key)
	local value = redis.pcall('GET', key)
	if type(value) == 'table' then
		return nil, 'foreign'
	end
	return value or nil
end

local last, foreign = text(KEYS[1])
if foreign then
	return redis.error_reply('FOREIGN value under the key ' .. KEYS[1])
end
local fresh = not tonumber(last or '') or tonumber(ARGV[1]) > tonumber(last)
if fresh then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000)
end

local epoch
epoch, foreign = text(KEYS[2])
if foreign then
	return redis.error_reply('FOREIGN value under the key ' .. KEYS[2])
end
if not tonumber(epoch or '') then
	epoch = string.format('%.0f', now)
	redis.call('SET', KEYS[2], epoch, 'PX', 86400000)
elseif fresh then
	redis.call('PEXPIRE', KEYS[2], 86400000)
end

local from = tonumber(ARGV[6]) + 1
local asks = ARGV[5] == '1'
-- Once a second and node, and when a source begins to be thinned: who asks looks back three seconds.
local thinned = {}
local function tell(key)
	thinned[#thinned + 1] = now_ms
	thinned[#thinned + 1] = string.sub(key, from)
end

local function bucket(key, value, rate, admitted, offered)
	local tat, demand, at = now, 0, now
	if value then
		if #value ~= 24 then return -1, 0, 0 end
		tat, demand, at = unpack_from('<ddd', value)
		-- A clock that went back takes the debt with it.
		if at > now then tat = tat - (at - now); at = now end
	end
	demand = demand * exp((at - now) / filter)
	if fresh then
		local was_over = demand > rate
		demand = demand + offered * per
		if tat < now then tat = now end
		tat = tat + admitted * 1000000 / rate
		if tat > now + cap then tat = now + cap end
		call('PSETEX', key, life, pack('<ddd', tat, demand, now))
		if demand > rate and (asks or not was_over) then tell(key) end
	end
	if tat < now then tat = now end
	return floor(tat - now), floor(demand * 1000), 0
end

local function window(key, value, length_ms, admitted, offered, number)
	local at_number, count, before, demand, at = number, 0, 0, 0, now
	if value then
		if #value ~= 40 then return -1, 0, 0 end
		at_number, count, before, demand, at = unpack_from('<ddddd', value)
		if at > now then at = now end
	end
	demand = demand * exp((at - now) / filter)
	if number > at_number then
		before = number == at_number + 1 and count or 0
		count, at_number = 0, number
	end
	if fresh then
		demand = demand + offered * per
		if number == at_number then
			count = count + admitted
		elseif number == at_number - 1 then
			before = before + admitted
		end
		call('PSETEX', key, 2 * length_ms + 60000, pack('<ddddd', at_number, count, before, demand, now))
		if admitted > 0 and (asks or not value) then tell(key) end
	end
	-- A node whose clock is behind asks about the window before.
	if number == at_number - 1 then return before, math.floor(demand * 1000), 0 end
	return count, math.floor(demand * 1000), before
end

local out = { epoch, tonumber(tm[1]), tonumber(tm[2]), fresh and 1 or 0 }
local j, n = 7, 4
-- All at once, in parts that Lua's stack holds.
local values, first, last_key = {}, 4, 3
for i = 4, #KEYS do
	if i > last_key then
		first, last_key = i, math.min(i + 999, #KEYS)
		values = call('MGET', unpack(KEYS, first, last_key))
	end
	local rate, admitted, offered = tonumber(ARGV[j]), tonumber(ARGV[j + 1]), tonumber(ARGV[j + 2])
	local value, is_foreign = values[i - first + 1], nil
	-- Nothing there, or something else than text: that tells it apart.
	if not value then value, is_foreign = text(KEYS[i]) end
	local a, b, c = -1, 0, 0
	if not is_foreign then
		if rate > 0 then
			a, b, c = bucket(KEYS[i], value, rate, admitted, offered)
		else
			a, b, c = window(KEYS[i], value, -rate, admitted, offered, tonumber(ARGV[j + 3]))
		end
	end
	out[n + 1], out[n + 2], out[n + 3] = a, b, c
	n, j = n + 3, j + 4
end
for i = 1, #thinned, 1000 do
	redis.pcall('ZADD', KEYS[3], unpack(thinned, i, math.min(i + 999, #thinned)))
end
if #thinned > 0 then
	call('PEXPIRE', KEYS[3], 30000)
end
if asks then
	if #thinned > 0 then redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', now_ms - 5000) end
	local names = redis.pcall('ZRANGEBYSCORE', KEYS[3], now_ms - 3000, '+inf', 'LIMIT', 0, 500)
	out[n + 1] = names.err and {} or names
end
return out
