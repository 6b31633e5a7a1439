/** Equal for addresses that only differ in scheme, `www.`, fragment, campaign parameters or a trailing slash. */
export function pageKey(address: URL): string {
  const url = new URL(address)
  url.hash = ''
  url.protocol = 'https:'
  const marks = [...url.searchParams.keys()].filter((name) => /^(utm_\w+|fbclid|gclid|msclkid)$/.test(name))
  for (const name of marks) url.searchParams.delete(name)
  return url.href.replace(/^https:\/\/www\./, 'https://').replace(/\/$/, '')
}
