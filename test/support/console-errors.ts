// Errors of accounts, of the console and of what is set there, each with where it is produced.

import type { ErrorCode } from '../../src/errors/errors.ts'

export const consoleErrors: Partial<Record<ErrorCode, string>> = {
  bad_signature: 'a message that somebody else has signed: payment-hooks.test.ts',
  configuration_changed: 'two changes of the settings at once: kept-settings.test.ts',
  elevation_required: 'an act that wants a fresh proof: admin.test.ts',
  identity_not_linked: 'single sign-on of somebody unknown: single-sign-on.test.ts',
  invalid_ticket: 'a link that was used or is too old: sign-in.test.ts',
  key_replaced: 'two tabs that rotate one key: console-keys.test.ts',
  network_not_allowed: 'a key that works from its networks alone: console-keys.test.ts',
  not_signed_in: 'no session: sign-in.test.ts',
  operator_required: 'an account that is no operator: console-keys.test.ts',
  origin_not_allowed: 'another site that uses the cookie: sign-in.test.ts',
  payment_processor_error: 'a processor that is not there: top-ups.test.ts',
  sign_in_closed: 'accounts.sign_in names other ways: single-sign-on-alone.test.ts',
  sign_up_closed: 'accounts.sign_up says so: sign-in.test.ts',
  voucher_invalid: 'a code that there is not: vouchers.test.ts',
  voucher_used: 'a voucher of somebody else: vouchers.test.ts',
  wrong_credentials: 'a wrong password: sign-in.test.ts',
}
