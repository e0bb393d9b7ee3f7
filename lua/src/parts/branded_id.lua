--! A branded id has three letters and a number below 2^63: at most AzL8n0Y58m7, byte by byte, since
--! Lua orders strings as the locale does. Expects `name`, and `what` it is to the caller.
local wrong = #name ~= 14 or not string.find(name, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$')
for i = 4, wrong and 0 or 14 do
  local digit, most = string.byte(name, i), string.byte('...AzL8n0Y58m7', i)
  if digit ~= most then
    wrong = digit > most
    break
  end
end
if wrong then
  return redis.error_reply('EMQARG ' .. what .. ' must be a branded id, up to AzL8n0Y58m7')
end
