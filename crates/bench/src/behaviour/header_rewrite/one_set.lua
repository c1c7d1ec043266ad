function envoy_on_request(handle)
  handle:headers():replace("x-gateway", "foregate")
end
