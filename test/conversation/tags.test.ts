// The header that says what a call is for: what it may hold, and what is wrong with what it may not.

import { expect, test } from 'bun:test'
import { faultOfTag, readTagsHeader } from '../../src/conversation/request.ts'

const many = (count: number) => Array.from({ length: count }, (_, n) => `t${n}=v`).join(',')

test.each<[string, Record<string, string>]>([
  ['team=a,feature=b', { team: 'a', feature: 'b' }],
  [' team = a , feature=b ,', { team: 'a', feature: 'b' }],
  ['user=ada@example.org', { user: 'ada@example.org' }],
  ['note=a%2Cb%3Dc%25', { note: 'a,b=c%' }],
  ['city=Stra%C3%9Fe', { city: 'Straße' }],
  ['query=a=b=c', { query: 'a=b=c' }],
  ['constructor=x,toString=y', { constructor: 'x', toString: 'y' } as never],
  ['a.b:c@d/e-f_g=1', { 'a.b:c@d/e-f_g': '1' }],
  ['', {}],
  [many(16), Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`t${n}`, 'v']))],
  [`${'n'.repeat(64)}=${'v'.repeat(512)}`, { ['n'.repeat(64)]: 'v'.repeat(512) }],
])('%s', (written, tags) => {
  expect(readTagsHeader(written)).toEqual(tags)
})

test.each([
  ['team', 'a tag is written name=value'],
  ['=a', 'begins with a letter or a digit'],
  ['te am=a', 'begins with a letter or a digit'],
  ['__proto__=a', 'begins with a letter or a digit'],
  ['team=', 'the value of a tag has 1 to 512 characters'],
  ['team=a,team=b', 'the tag team is there twice'],
  ['team=100%', 'a percent sign itself is %25'],
  ['team=%FF', 'a value is percent-encoded UTF-8'],
  ['team=a%0Ab', 'no control characters'],
  [many(17), 'a call has at most 16 tags'],
  [`${'n'.repeat(65)}=v`, 'the name of a tag has at most 64 characters'],
  [`n=${'v'.repeat(513)}`, 'the value of a tag has 1 to 512 characters'],
])('%s is out of bounds', (written, fault) => {
  expect(readTagsHeader(written)).toContain(fault)
})

test('half a surrogate pair, which no database keeps, is no value', () => {
  expect(faultOfTag('team', '\ud800')).toBeDefined()
  expect(faultOfTag('team', '😀')).toBeUndefined()
})
