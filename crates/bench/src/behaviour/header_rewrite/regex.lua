local gsub = string.gsub

function envoy_on_request(handle)
  local headers = handle:headers()
  local referer = headers:get("referer")
  if referer then
    local cut, count = gsub(referer, "token=([^&][^&][^&][^&])[^&]*", "token=%1...")
    if count > 0 then
      headers:replace("referer", cut)
    end
  end
end
