// The windows of a group's budgets, in the time of a place: they have no gaps, and begin when a day begins there.

import { describe, expect, test } from 'bun:test'
import { budgetsOf, isTimezone, type Level, windowAt } from '../../src/accounts/group.ts'

const at = (text: string) => Date.parse(text)
const shown = (window: 'day' | 'week' | 'month', zone: string, now: string) => {
  const { start, end } = windowAt(window, zone, at(now))
  return [start, end!].map((time) => new Date(time).toISOString().replace(':00.000Z', 'Z'))
}

test.each([
  ['day', 'UTC', '2026-11-21T12:00Z', '2026-11-21T00:00Z', '2026-11-22T00:00Z'],
  ['day', 'Asia/Kolkata', '2026-11-21T18:29Z', '2026-11-20T18:30Z', '2026-11-21T18:30Z'],
  ['day', 'Asia/Kolkata', '2026-11-21T18:30Z', '2026-11-21T18:30Z', '2026-11-22T18:30Z'],
  ['day', 'Pacific/Kiritimati', '2026-11-21T10:00Z', '2026-11-21T10:00Z', '2026-11-22T10:00Z'],
  ['day', 'Etc/GMT+12', '2026-11-21T11:59Z', '2026-11-20T12:00Z', '2026-11-21T12:00Z'],
  // Weeks begin on Monday, and the 21st of November 2026 is a Saturday.
  ['week', 'America/New_York', '2026-11-21T12:00Z', '2026-11-16T05:00Z', '2026-11-23T05:00Z'],
  ['week', 'America/New_York', '2026-11-16T04:59Z', '2026-11-09T05:00Z', '2026-11-16T05:00Z'],
  ['month', 'Europe/Berlin', '2026-12-31T22:59Z', '2026-11-30T23:00Z', '2026-12-31T23:00Z'],
  ['month', 'Europe/Berlin', '2026-12-31T23:00Z', '2026-12-31T23:00Z', '2027-01-31T23:00Z'],
  ['month', 'America/Los_Angeles', '2028-02-29T12:00Z', '2028-02-01T08:00Z', '2028-03-01T08:00Z'],
] as const)('a %s in %s that holds %s is from %s until %s', (window, zone, now, start, end) => {
  expect(shown(window, zone, now)).toEqual([start, end])
})

describe('where the clock changes', () => {
  test.each([
    [
      'a day of 23 hours',
      'day',
      'Europe/Berlin',
      '2027-03-28T12:00Z',
      '2027-03-27T23:00Z',
      '2027-03-28T22:00Z',
    ],
    [
      'a day of 25 hours',
      'day',
      'Europe/Berlin',
      '2026-10-25T12:00Z',
      '2026-10-24T22:00Z',
      '2026-10-25T23:00Z',
    ],
    [
      'a month with a change',
      'month',
      'America/New_York',
      '2026-11-21T12:00Z',
      '2026-11-01T04:00Z',
      '2026-12-01T05:00Z',
    ],
    [
      'a week with a change',
      'week',
      'America/New_York',
      '2026-11-01T12:00Z',
      '2026-10-26T04:00Z',
      '2026-11-02T05:00Z',
    ],
    // Cairo sets its clocks forward at midnight: the day begins at one.
    [
      'a midnight that is left out',
      'day',
      'Africa/Cairo',
      '2026-04-24T12:00Z',
      '2026-04-23T22:00Z',
      '2026-04-24T21:00Z',
    ],
    // And back at midnight, to eleven of the evening before, which there is twice.
    [
      'an evening that there is twice',
      'day',
      'Africa/Cairo',
      '2026-10-29T20:30Z',
      '2026-10-28T21:00Z',
      '2026-10-29T22:00Z',
    ],
    ['its second hour', 'day', 'Africa/Cairo', '2026-10-29T21:30Z', '2026-10-28T21:00Z', '2026-10-29T22:00Z'],
    // Havana sets them back at one, to midnight: the day begins with the first of the two.
    [
      'a midnight that there is twice',
      'day',
      'America/Havana',
      '2026-11-01T05:30Z',
      '2026-11-01T04:00Z',
      '2026-11-02T05:00Z',
    ],
    [
      'half an hour',
      'day',
      'Australia/Lord_Howe',
      '2026-04-05T06:00Z',
      '2026-04-04T13:00Z',
      '2026-04-05T13:30Z',
    ],
    // Samoa left out the 30th of December 2011.
    [
      'a day that is left out',
      'day',
      'Pacific/Apia',
      '2011-12-30T10:00Z',
      '2011-12-30T10:00Z',
      '2011-12-31T10:00Z',
    ],
    [
      'the day before it',
      'day',
      'Pacific/Apia',
      '2011-12-30T09:59Z',
      '2011-12-29T10:00Z',
      '2011-12-30T10:00Z',
    ],
  ] as const)('%s', (_what, window, zone, now, start, end) => {
    expect(shown(window, zone, now)).toEqual([start, end])
  })

  test.each([
    'Africa/Cairo',
    'America/Havana',
    'America/St_Johns',
    'Australia/Lord_Howe',
    'Pacific/Apia',
    'America/Asuncion',
  ])('days, weeks and months in %s follow one another without a gap', (zone) => {
    for (const window of ['day', 'week', 'month'] as const) {
      for (const from of [
        '2006-03-01T00:00Z',
        '2010-10-20T00:00Z',
        '2011-12-01T00:00Z',
        '2026-02-15T00:00Z',
      ]) {
        let time = windowAt(window, zone, at(from)).end!
        for (let n = 0; n < 70; n++) {
          const { start, end } = windowAt(window, zone, time)
          expect(start).toBe(time)
          expect(windowAt(window, zone, end! - 1)).toEqual({ start, end })
          time = end!
        }
      }
    }
  })
})

test('a window that never ends has no bounds', () => {
  expect(windowAt('none', 'Asia/Kolkata', at('2026-11-21T12:00Z'))).toEqual({ start: 0, end: null })
})

test('a time zone is a name of the IANA database', () => {
  expect(['UTC', 'Asia/Kolkata', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'].every(isTimezone)).toBe(true)
  expect(['', 'IST5', 'Mars/Olympus', '+05:30', 'Asia/Kolkata\n', '../etc/passwd'].some(isTimezone)).toBe(
    false,
  )
})

test('a call spends from the budgets of its person and of every group on the way up', () => {
  const level = (id: string, budget: bigint | null, personBudget: bigint | null): Level => ({
    id,
    name: id,
    budget,
    personBudget,
    window: id === 'grp_firm' ? 'month' : 'none',
    timezone: 'Asia/Kolkata',
    allowedModels: null,
    tags: null,
  })
  const levels = [level('grp_lab', 5n, 3n), level('grp_office', null, null), level('grp_firm', 9n, 7n)]
  const month = { windowStart: at('2026-10-31T18:30Z'), windowEnd: at('2026-11-30T18:30Z') }
  const always = { windowStart: 0, windowEnd: null }
  expect(budgetsOf({ person: 'anna', levels }, at('2026-11-21T12:00Z'))).toEqual([
    { scope: 'grp_lab/anna', limit: 3n, ...always },
    { scope: 'grp_lab', limit: 5n, ...always },
    { scope: 'grp_office/anna', limit: null, ...always },
    { scope: 'grp_office', limit: null, ...always },
    { scope: 'grp_firm/anna', limit: 7n, ...month },
    { scope: 'grp_firm', limit: 9n, ...month },
  ])
})
