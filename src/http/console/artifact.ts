// The page in which the chat shows HTML and SVG that a model wrote. It has an origin of its own, of which nothing is stored
// and which may call nobody; the console gives it the text by a message.

/** `sandbox` also where somebody opens the address by itself. What is written into the page stays under this policy. */
const policy = [
  'sandbox allow-scripts',
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  "style-src 'unsafe-inline'",
  'img-src data: blob:',
  'font-src data:',
  'media-src data: blob:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
  "webrtc 'block'",
].join('; ')

// Browsers without the directive of the policy would let a script reach a server by WebRTC.
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Artifact</title>
<script>
for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport'])
  Object.defineProperty(window, name, { value: undefined, configurable: false, writable: false })
addEventListener('message', function take(event) {
  if (event.source !== parent || typeof event.data !== 'string') return
  removeEventListener('message', take)
  document.open()
  document.write(event.data)
  document.close()
})
</script>
</html>
`

export function artifactPage(): Response {
  return new Response(page, {
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
      'x-dns-prefetch-control': 'off',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-cache',
    },
  })
}
