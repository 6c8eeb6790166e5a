-- An AcceleratorClass is a statement that ModelDeployments read: it is healthy unless a condition of its own says otherwise.
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  if (condition.type == "Accepted" or condition.type == "Ready") and condition.status == "False" then
    return { status = "Degraded", message = condition.reason .. ": " .. condition.message }
  end
end
return { status = "Healthy", message = "a class has no state of its own" }
