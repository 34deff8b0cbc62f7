-- Bans and their removals, for all nodes.
--
-- KEYS  1 version and begin of the data   2 subjects by version   3 subject -> what   4 subjects by their end
-- ARGV  1 the version that this node has seen   2 this node, then for each change of its own:
--       "a" or "d", subject, ms that are left, reason
-- Answer: begin of the data, version, then for each change since: subject, "a" or "d", ms left, node, reason
--
-- Ends are by this store's clock, so a ban ends everywhere at once whatever the nodes' clocks say. Of two bans of a
-- subject the later end wins; a removal stays for as long as the ban would have, so that nobody brings it back.

local tm = redis.call('TIME')
local now = math.floor((tm[1] * 1000000 + tm[2]) / 1000)
local version = tonumber(redis.call('HGET', KEYS[1], 'v') or '')
local epoch = redis.call('HGET', KEYS[1], 'e')
if not version or not epoch then
	version, epoch = now * 1000, string.format('%.0f', now)
	redis.call('HSET', KEYS[1], 'v', string.format('%.0f', version), 'e', epoch)
end

local function split(what)
	return string.match(what, '^(%a) (%d+) (%S+) (.*)$')
end

for i = 3, #ARGV, 4 do
	local op, subject, left, reason = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
	local last = now + left
	local old = redis.call('HGET', KEYS[3], subject)
	local old_op, old_last
	if old then old_op, old_last = split(old) end
	old_last = tonumber(old_last or '') or 0
	local counts = left > 0
	if op == 'a' then
		counts = counts and not (old_op == 'a' and old_last >= last - 100)
	else
		last = math.max(last, old_last)
		counts = old_op ~= 'd'
	end
	if counts then
		version = version + 1
		redis.call('HSET', KEYS[3], subject, string.format('%s %.0f %s %s', op, last, ARGV[2], reason))
		redis.call('ZADD', KEYS[2], version, subject)
		redis.call('ZADD', KEYS[4], last, subject)
	end
end

local ended = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, 100)
for _, subject in ipairs(ended) do
	redis.call('ZREM', KEYS[2], subject)
	redis.call('ZREM', KEYS[4], subject)
	redis.call('HDEL', KEYS[3], subject)
end
redis.call('HSET', KEYS[1], 'v', string.format('%.0f', version))
local longest = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
local life = math.max(600000, (tonumber(longest[2] or '') or 0) - now + 600000)
for i = 1, 4 do redis.call('PEXPIRE', KEYS[i], string.format('%.0f', life)) end

local out = { epoch, '' }
local reached = version
local names = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 200)
for i = 1, #names, 2 do
	local op, last, node, reason = split(redis.call('HGET', KEYS[3], names[i]) or '')
	if op then
		out[#out + 1] = names[i]
		out[#out + 1] = op
		out[#out + 1] = tonumber(last) - now
		out[#out + 1] = node
		out[#out + 1] = reason
	end
end
if #names == 400 then reached = tonumber(names[400]) end
out[2] = string.format('%.0f', reached)
return out
