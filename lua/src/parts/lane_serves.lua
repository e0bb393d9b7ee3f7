--! After a change that can only make `lane` (of lane_of) more serviceable: it enters the ring when
--! it became so. Expects `entering`; sets `enters`.
local enters = not lane.served and lane.depth > 0 and not lane.parked
  and (lane.ceiling == 0 or lane.leases < lane.ceiling)
if enters then
  lane.served = true
  entering[#entering + 1] = lane.group
end
