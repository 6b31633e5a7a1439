/** The secret after the `#`, removed from the address at once, so that history and screenshots do not keep it. */
export function takeSecret(): string | undefined {
  const secret = location.hash.slice(1)
  if (secret === '' || secret.includes('=')) return undefined
  history.replaceState(history.state, '', location.pathname)
  return secret
}
