--! At most 4096 bytes of `error`, cut where a UTF-8 character starts.
if #error > 4096 then
  local cut = 4096
  while cut > 4093 and string.byte(error, cut + 1) >= 128 and string.byte(error, cut + 1) < 192 do
    cut = cut - 1
  end
  error = string.sub(error, 1, cut)
end
