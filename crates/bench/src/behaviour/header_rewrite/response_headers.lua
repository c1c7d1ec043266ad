
function envoy_on_response(handle)
  local headers = handle:headers()
  for place = 1, #SECURITY_HEADERS, 2 do
    local name = SECURITY_HEADERS[place]
    if not headers:get(name) then
      headers:add(name, SECURITY_HEADERS[place + 1])
    end
  end
end
