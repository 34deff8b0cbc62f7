-- Who is there, once a second.
--
-- KEYS  1 nodes by the time of their last beat   2 the period that all go by, in ms
-- ARGV  1 this node; "" asks only   2 the period that it wants   3 "1": it leaves
-- Answer: nodes, period, seconds, microseconds, then up to 64 names and ages in ms
--
-- The longest period that anybody wants is agreed on; who no longer wants it lets it lapse after 10 s.

local tm = redis.call('TIME')
local now = math.floor((tm[1] * 1000000 + tm[2]) / 1000)
if ARGV[3] == '1' then
	redis.call('ZREM', KEYS[1], ARGV[1])
else
	redis.call('ZADD', KEYS[1], now, ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 10000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 10000, '+inf')
redis.call('PEXPIRE', KEYS[1], 60000)
local wanted, period = tonumber(ARGV[2]), tonumber(redis.call('GET', KEYS[2]) or '')
if not period or wanted >= period then
	redis.call('SET', KEYS[2], ARGV[2], 'PX', 10000)
	period = wanted
end
local out = { redis.call('ZCARD', KEYS[1]), period, tonumber(tm[1]), tonumber(tm[2]) }
local names = redis.call('ZREVRANGE', KEYS[1], 0, 63, 'WITHSCORES')
for i = 1, #names, 2 do
	out[#out + 1] = names[i]
	out[#out + 1] = math.max(0, now - tonumber(names[i + 1]))
end
return out
