// What the pages of the console ask for in a large installation: of operators at /admin/v1, of a customer at /console/api.

import { dayMs } from '../../src/credits/calendar.ts'
import type { Filled } from './fill.ts'

/** A value of the tag, a key and a model as `fill` makes them. */
const tag = 'team=t3'
const model = 'sim/model-3'

/** Every way to ask for usage, with each filter that goes with it. */
function usageOf(dimensions: readonly string[], key: string): string[] {
  const plain = dimensions.map((by) => `usage?by=${by}`)
  return [
    ...plain,
    ...plain.map((path) => `${path}&compare=before`),
    ...plain.map((path) => `${path}&per=month`),
    ...plain.filter((path) => !path.endsWith('model')).map((path) => `${path}&model=${model}`),
    ...plain.filter((path) => !/(?:key|account|provider)$/.test(path)).map((path) => `${path}&key=${key}`),
    ...plain
      .filter((path) => /(?:day|model|key|channel|account)$/.test(path))
      .map((path) => `${path}&tag=${tag}`),
  ]
}

const dimensions = ['day', 'model', 'key', 'channel', 'user', 'group', 'tag:team', 'tag:user']

const requestFilters = [
  '',
  'outcome=served',
  'outcome=failed',
  'outcome=refused',
  'code=rate_limit_exceeded',
  'code=upstream_timeout',
  'model=sim/none',
  'model=*odel-3*',
  'model=*none*',
  'tag=team=t3',
  'tag=user=u40000',
]

export function asOperator(
  { customer, customerKey, rareAccount, rareKey }: Filled,
  now: number,
): readonly string[] {
  const call = `req_${(1_000_000).toString(16).padStart(32, '0')}`
  const monthAgo = new Date(now - 25 * dayMs).toISOString()
  const month = new Date(now).toISOString().slice(0, 7)
  return [
    'overview',
    ...usageOf([...dimensions, 'account', 'provider'], rareKey),
    `usage?by=key&account=${customer}`,
    `usage?by=key&account=${customer}&model=${model}`,
    'usage?by=model&provider=rare',
    ...requestFilters.map((filter) => `requests?${filter}`),
    'requests?provider=rare',
    'requests?provider=none',
    `requests?key=${rareKey}&limit=200`,
    `requests?key=${rareKey}&outcome=failed`,
    `requests?key=${rareKey}&model=sim/none&code=overloaded`,
    `requests?account=${customer}`,
    `requests?account=${customer}&outcome=refused`,
    `requests?account=${rareAccount}&model=*none*`,
    `requests?account=${rareAccount}&code=rate_limit_exceeded`,
    `requests?account=${rareAccount}&channel=app`,
    'requests?account=nobody&outcome=failed',
    `requests?to=${monthAgo}`,
    `requests?from=${monthAgo}&to=${monthAgo}`,
    `requests?id=${call}`,
    'requests?provider=rare&model=sim/model-1&outcome=served',
    `requests/${call}`,
    `duplicates?ids=${call}`,
    `duplicates?account=${customer}`,
    `duplicates?account=${customer}&at=${monthAgo}`,
    `accounts/${customer}/keys/${customerKey}/checks`,
    ...['scale1999', '0042', call, 'up_1234567', 'Team 19', 'pay_77777', 'nothing-at-all'].map(
      (text) => `search?q=${encodeURIComponent(text)}`,
    ),
    ...['opened', 'email', 'balance', 'spent', 'used'].flatMap((sort) => [
      `accounts?sort=${sort}`,
      `accounts?sort=${sort}&order=desc`,
      `accounts?sort=${sort}&q=scale19`,
      `accounts?sort=${sort}&state=suspended`,
    ]),
    `accounts/${customer}`,
    `accounts/${customer}/statements/${month}`,
    `accounts/${rareAccount}/statements/${month}`,
    ...['', 'state=failed', 'state=open', 'problem=yes', 'processor=stripe', `to=${monthAgo}`].map(
      (filter) => `top-ups?${filter}`,
    ),
    `top-ups?account=${rareAccount}`,
    'top-ups/topup_000000000000000000000064',
    'payment-events',
    'vouchers',
    'subscriptions',
    'plans/subscribers',
    ...['', 'what=voucher', 'what=none', 'operator=cli:root', `subject=${rareAccount}`, `to=${monthAgo}`].map(
      (filter) => `acts?${filter}`,
    ),
    'groups',
    'groups?q=team%2019',
    'groups/grp_000000000000000010',
    'groups/grp_000000000000000010/members',
    `groups/grp_000000000000000010/statements/${month}`,
    'providers',
    'catalog',
    'management-keys',
  ]
}

/** Of the customer with the most keys and calls. */
export function asCustomer({ customerKey }: Filled, now: number): readonly string[] {
  const month = new Date(now).toISOString().slice(0, 7)
  return [
    'session',
    'credits',
    'credits/history',
    `credits/statements/${month}`,
    'keys',
    'keys?q=0042',
    'top-ups',
    'groups',
    'models',
    'conversations',
    ...usageOf(dimensions, customerKey),
    ...requestFilters.map((filter) => `requests?${filter}`),
    'requests?key=scale000000017',
    'requests?key=scale000000017&outcome=refused',
  ]
}
