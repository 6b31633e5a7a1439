// A real browser that reaches nothing but this machine.

import { type Browser, chromium } from 'playwright-core'

// The build without windows is the same engine at half the processor time, most of which is the tests' own.
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']

/** The browser of this machine; null where there is none. */
export const browserPath: string | null = names.reduce<string | null>(
  (found, name) => found ?? Bun.which(name),
  null,
)

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: browserPath!,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
    ],
  })
}
