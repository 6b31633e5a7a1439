// More than fifty secrets of the kinds a gateway meets, for the tests that look for them where they must not be. They are made
// up here, and put together at run time so that scanners do not take this file for a leak.

const body = 'Zq9xWv7uTs5rQp3oNm1lKj8iHg6fEd4c'

/** Keys by their form: found wherever they stand. */
export const keysByForm: readonly string[] = [
  ['sk', 'weir', 'live', 'aB3dE5gH7jK9', `${body}1`].join('-'),
  ['sk', 'weir', 'test', 'aB3dE5gH7jK9', `${body}2`].join('-'),
  ['mk', 'weir', 'aB3dE5gH7jK9', `${body}a`].join('-'),
  ['ws', 'weir', 'aB3dE5gH7jK9', `${body}b`].join('-'),
  ['wt', 'weir', 'aB3dE5gH7jK9', `${body}c`].join('-'),
  ['sk', 'proj', `${body}3`].join('-'),
  ['sk', `${body}4`].join('-'),
  ['sk', 'ant', 'api03', `${body}5`].join('-'),
  ['sk', 'or', 'v1', `${body}6`].join('-'),
  ['sk', 'svcacct', `${body}_7`].join('-'),
  ['gsk', `${body}8`].join('_'),
  ['xai', `${body}9`].join('-'),
  ['csk', `${body}10`].join('-'),
  ['pplx', `${body}11`].join('-'),
  ['hf', `${body}12`].join('_'),
  ['nvapi', `${body}13`].join('-'),
  ['fw', `${body}14`].join('_'),
  ['r8', `${body}15`].join('_'),
  ['tgp', 'v1', `${body}16`].join('_'),
  ['tvly', 'dev', `${body}17`].join('-'),
  ['jina', `${body}18`].join('_'),
  ['ghp', `${body}19`].join('_'),
  ['github', 'pat', `${body}20`].join('_'),
  ['glpat', `${body}21`].join('-'),
  ['rzp', 'live', `${body}22`].join('_'),
  ['sk', 'live', `${body}23`].join('_'),
  ['rk', 'live', `${body}24`].join('_'),
  ['whsec', `${body}25`].join('_'),
  // Beginnings that names have, too: in capitals and small letters, and in small letters alone.
  ...['key', 'pa', 'voyage', 'hf', 'xai', 'ak'].flatMap((prefix) => [
    [prefix, `${body}32`].join('-'),
    [prefix, '4f1d0c9be27a4f1d0c9be27a4f1d0c9b'].join('-'),
    [prefix, 'live', 'abcdefghijklmnopqrstuvwxyz'].join('_'),
  ]),
  `AIza${body}26`,
  `ya29.${body}27`,
  `AKIA${'ABCDEFGHIJ234567'}`,
  `ASIA${'ABCDEFGHIJ234568'}`,
  `BSA${body}28`,
  ['xoxb', '123456789012', `${body}29`].join('-'),
  ['eyJhbGciOiJIUzI1NiJ9', 'eyJzdWIiOiIxMjM0NTY3ODkwIn0', `${body}30`].join('.'),
  ['-----BEGIN PRIVATE', `KEY-----\n${body}31\n-----END PRIVATE`, 'KEY-----'].join(' '),
]

/** Secrets without any form of their own, by the field they travel in. */
export const secretFields: Readonly<Record<string, string>> = {
  authorization: 'Negotiate plain-canary-01',
  'x-api-key': 'plain-canary-02',
  'api-key': 'plain-canary-03',
  api_key: 'plain-canary-04',
  apiKey: 'plain-canary-05',
  cookie: 'session=plain-canary-06; theme=dark',
  'set-cookie': '__Host-weir=plain-canary-07; HttpOnly',
  password: 'plain-canary-08',
  client_secret: 'plain-canary-09',
  access_token: 'plain-canary-10',
  refreshToken: 'plain-canary-11',
  'x-goog-api-key': 'plain-canary-12',
  'proxy-authorization': 'plain-canary-13',
  aws_secret_access_key: 'plain-canary-14',
  'x-razorpay-signature': 'plain-canary-15',
  'stripe-signature': 't=1,v1=plain-canary-16',
  webhookSecret: 'plain-canary-17',
  master_key: 'plain-canary-18',
  private_key: 'plain-canary-19',
  signing_key: 'plain-canary-20',
}

/** What people say, by the field it travels in. */
export const promptFields: Readonly<Record<string, unknown>> = {
  messages: [{ role: 'user', content: 'spoken-canary-1' }],
  prompt: 'spoken-canary-2',
  content: 'spoken-canary-3',
  input: [{ text: 'spoken-canary-4' }],
  body: { anything: 'spoken-canary-5' },
  arguments: '{"city":"spoken-canary-6"}',
  instructions: 'spoken-canary-7',
  system: 'spoken-canary-8',
}
