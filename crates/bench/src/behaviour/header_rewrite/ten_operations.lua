local match, sub = string.match, string.sub

function envoy_on_request(handle)
  local headers = handle:headers()
  -- Nothing may be removed while they are looked through.
  local internal
  for name in pairs(headers) do
    if sub(name, 1, 11) == "x-internal-" then
      internal = internal or {}
      internal[#internal + 1] = name
    end
  end
  if internal then
    for place = 1, #internal do
      headers:remove(internal[place])
    end
  end
  headers:remove("x-debug")
  headers:replace("x-gateway", "foregate")
  local address = handle:streamInfo():downstreamRemoteAddress()
  headers:replace("x-client-ip", match(address, "^%[?(.-)%]?:%d+$"))
  if not headers:get("x-tenant") then
    headers:add("x-tenant", "public")
  end
  headers:add("via", "1.1 foregate")
  local user = headers:get("x-legacy-user")
  if user then
    headers:remove("x-legacy-user")
    headers:replace("x-user", user)
  end
  local id = headers:get("x-request-id")
  if id then
    headers:replace("x-correlation-id", id)
  end
  if sub(headers:get(":path") or "", 1, 7) == "/orders" then
    headers:replace("x-area", "orders")
  end
  if headers:get("x-api-key") then
    headers:replace("x-plan", "paid")
  end
end
