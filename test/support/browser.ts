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
      // No page is open for as long as it takes to earn what it costs to compile its scripts for good: a tenth of all.
      '--js-flags=--no-turbofan',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
    ],
  })
}

let shared: Promise<Browser> | undefined

/**
 * The browser of all files that this process tests, one after the other: to start one takes as long as a test. It ends
 * with the process, which holds the pipe that drives it. Whoever opens pages calls `closePages` after the file.
 */
export async function sharedBrowser(): Promise<Browser> {
  const running = await shared
  if (running?.isConnected()) return running
  shared = launchBrowser()
  return shared
}

/** Closes whatever is open in the shared browser. */
export async function closePages(): Promise<void> {
  const running = await shared
  for (const context of running?.contexts() ?? []) await context.close()
}
