-- The health of a ModelDeployment, by its conditions (docs/conditions.md). Argo CD opens no string library here.
local function health(status, message)
  return { status = status, message = message }
end

local status = obj.status or {}
local seen = status.observedGeneration or -1

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "it is being deleted: its replicas finish their requests")
end
if seen < (obj.metadata.generation or 0) then
  return health("Progressing", "the operator has not looked at this version of the spec yet")
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

-- What waiting does not mend: the spec, its class, or a fault of the operator. A class that is not there yet may come.
for _, kind in ipairs({ "Accepted", "Planned" }) do
  local condition = conditions[kind]
  if condition ~= nil and condition.reason == "ClassNotFound" then
    return health("Progressing", condition.reason .. ": " .. condition.message)
  end
  if condition ~= nil and (condition.status == "False" or condition.reason == "OperatorBug") then
    return health("Degraded", condition.reason .. ": " .. condition.message)
  end
end

local progressing, ready = conditions["Progressing"], conditions["Ready"]
if progressing == nil or ready == nil then
  return health("Progressing", "the operator has not told everything yet")
end
if progressing.status ~= "False" then
  return health("Progressing", progressing.reason .. ": " .. progressing.message)
end
-- Nothing is being done any more: either it is as it should be, or it is stuck, though some replicas may serve.
if progressing.reason ~= "Settled" then
  return health("Degraded", progressing.reason .. ": " .. progressing.message)
end
if ready.status ~= "True" then
  return health("Degraded", ready.reason .. ": " .. ready.message)
end
return health("Healthy", ready.message)
