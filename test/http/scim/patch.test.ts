// Filters and operations of SCIM, as Okta and Entra write them.

import { describe, expect, test } from 'bun:test'
import { apply, readFilter, readOperations, readPath, type Resource } from '../../../src/http/scim/patch.ts'

const enterprise = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'

describe('filters', () => {
  test.each([
    ['userName eq "Anna@Example.org"', [{ attribute: 'username', value: 'Anna@Example.org' }]],
    ['(externalId EQ "a \\"b\\"")', [{ attribute: 'externalid', value: 'a "b"' }]],
    ['emails[type eq "work"].value eq "a@b.c"', [{ attribute: 'emails.value', value: 'a@b.c' }]],
    ['urn:ietf:params:scim:schemas:core:2.0:User:userName eq "a"', [{ attribute: 'username', value: 'a' }]],
    [
      'id eq "1" and members eq "2" AND active eq True',
      [
        { attribute: 'id', value: '1' },
        { attribute: 'members', value: '2' },
        { attribute: 'active', value: true },
      ],
    ],
  ])('%s', (text, conditions) => {
    expect(readFilter(text)).toEqual(conditions)
  })

  test.each(['', 'userName', 'userName sw "a"', 'userName eq a', 'a eq "1" or b eq "2"', 'a eq "1" and'])(
    'not %p',
    (text) => {
      expect(() => readFilter(text)).toThrow(expect.objectContaining({ scimType: 'invalidFilter' }))
    },
  )
})

function patched(resource: Resource, ...operations: object[]): Resource {
  const whole = structuredClone(resource)
  for (const operation of readOperations({ Operations: operations })) apply(whole, operation)
  return whole
}

const work = { type: 'work', value: 'old@example.org', primary: true }
const anna = { userName: 'anna', active: true, emails: [work], name: { givenName: 'Anna' } }

describe('operations', () => {
  test.each([
    ['Okta suspends', [{ op: 'replace', value: { active: false } }], { ...anna, active: false }],
    ['Entra suspends', [{ op: 'Replace', path: 'active', value: 'False' }], { ...anna, active: 'False' }],
    [
      'Entra changes the work address',
      [{ op: 'Replace', path: 'emails[type eq "work"].value', value: 'new@example.org' }],
      { ...anna, emails: [{ ...work, value: 'new@example.org' }] },
    ],
    [
      'Entra adds one that is not there',
      [{ op: 'Add', path: 'emails[type eq "home"].value', value: 'at@home.example' }],
      { ...anna, emails: [work, { type: 'home', value: 'at@home.example' }] },
    ],
    [
      'of a name a part',
      [{ op: 'Add', path: 'name.familyName', value: 'River' }],
      { ...anna, name: { givenName: 'Anna', familyName: 'River' } },
    ],
    [
      'Entra without a path, with names of parts',
      [{ op: 'Add', value: { displayName: 'Anna R', 'name.givenName': 'Ann', 'NAME.familyName': 'R' } }],
      { ...anna, displayName: 'Anna R', name: { givenName: 'Ann', familyName: 'R' } },
    ],
    [
      'an extension by its path',
      [{ op: 'Add', path: `${enterprise}:department`, value: 'Locks' }],
      { ...anna, [enterprise]: { department: 'Locks' } },
    ],
    [
      'and by its object',
      [{ op: 'replace', value: { [enterprise]: { department: 'Locks' } } }],
      { ...anna, [enterprise]: { department: 'Locks' } },
    ],
    [
      'an extension is removed',
      [
        { op: 'add', path: `${enterprise}:department`, value: 'x' },
        { op: 'remove', path: enterprise },
      ],
      anna,
    ],
    ['an element is removed', [{ op: 'remove', path: 'emails[type eq "work"]' }], { ...anna, emails: [] }],
    [
      'elements are added once',
      [{ op: 'add', path: 'emails', value: [{ value: 'OLD@example.org' }, { value: 'b@example.org' }] }],
      { ...anna, emails: [work, { value: 'b@example.org' }] },
    ],
    [
      'an attribute in another case',
      [{ op: 'replace', path: 'USERNAME', value: 'ann' }],
      { ...anna, userName: 'ann' },
    ],
  ] as const)('%s', (_, operations, whole) => {
    expect(patched(anna, ...operations)).toEqual(whole)
  })

  test('nothing reaches what all objects are made from', () => {
    for (const path of ['__proto__.admin', 'constructor.admin', '__proto__[a eq "b"].c', 'a.__proto__'])
      expect(() => patched({}, { op: 'add', path, value: true })).toThrow()
    expect(() =>
      patched({}, { op: 'add', value: JSON.parse('{"__proto__": {"admin": true}}') as object }),
    ).toThrow()
    expect(({} as Resource)['admin']).toBeUndefined()
  })

  test('what is no operation is refused', () => {
    for (const body of [{}, { Operations: [] }, { Operations: [{ op: 'move' }] }, { Operations: ['add'] }])
      expect(() => readOperations(body)).toThrow(expect.objectContaining({ status: 400 }))
    expect(() => readPath('emails[')).toThrow(expect.objectContaining({ scimType: 'invalidPath' }))
    expect(() => patched(anna, { op: 'remove' })).toThrow(expect.objectContaining({ scimType: 'noTarget' }))
  })
})

test('a path that no schema has is refused before it is read', () => {
  expect(() => readPath(`urn:${':a['.repeat(1_000_000)}`)).toThrow(
    expect.objectContaining({ scimType: 'invalidPath' }),
  )
})
