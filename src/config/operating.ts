// Settings of what a gateway tells those who run it: its request log elsewhere, and alarms.

import { z } from 'zod'
import { baseUrl, milliseconds, note, secret, section, whole } from './fields.ts'

/** An address that takes messages; it may hold a token in its path or its query. */
const hookUrl = z.string().refine(
  (text) => {
    const url = URL.parse(text)
    return (
      (url?.protocol === 'https:' || url?.protocol === 'http:') && url.username === '' && url.password === ''
    )
  },
  { error: 'must be an address such as https://example.org/hooks/weir, without a user and a password' },
)

export const logExportSettings = section({
  every_ms: milliseconds('How often rows of the request log are sent', 60_000, 100),
  batch_rows: whole('The most rows that are sent together', 5_000, 1, 100_000),
  s3: section({
    endpoint: note(
      baseUrl.optional(),
      'An S3-compatible store for the rows of the request log, such as https://s3.eu-central-1.amazonaws.com',
    ),
    bucket: note(
      z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/, 'must be the name of a bucket')
        .optional(),
      'The bucket that they are written to',
    ),
    region: note(z.string().min(1).max(64).default('us-east-1'), 'Its region, as requests are signed for it'),
    access_key: note(
      secret.optional(),
      'The access key: text, ${ENVIRONMENT_NAME} or file:/path; it needs no right but to write objects',
      { secret: true },
    ),
    secret_key: note(secret.optional(), 'Its secret', { secret: true }),
    prefix: note(
      z
        .string()
        .regex(/^[A-Za-z0-9_.~/-]{0,200}$/, 'must be letters, digits and _.~-/')
        .default('weir/requests'),
      'What the names of the objects begin with; the day follows',
    ),
  }),
  webhook: section({
    url: note(hookUrl.optional(), 'An address that takes rows of the request log, instead of a store'),
    secret: note(secret.optional(), 'What the messages are signed with, as those of webhooks', {
      secret: true,
    }),
  }),
})
