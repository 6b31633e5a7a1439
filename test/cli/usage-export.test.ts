// Usage exports are read in every usual form, and what cannot be read is named by line and column.

import { describe, expect, test } from 'bun:test'
import { csvRows, isInvoice, readInvoice, readUsageExport } from '../../src/cli/usage-export.ts'
import { usd } from '../../src/credits/money.ts'

const two = [
  { upstreamId: 'gen-1', cost: usd('0.0125') },
  { upstreamId: 'gen-2', cost: usd('0.00000025') },
]

describe('an export', () => {
  test.each([
    ['CSV', 'id,cost\ngen-1,0.0125\ngen-2,2.5e-7\n'],
    [
      'CSV with CRLF, a byte order mark and blank lines',
      '\uFEFFid,cost\r\ngen-1,0.0125\r\n\r\ngen-2,0.00000025',
    ],
    [
      'CSV with quotes',
      'model,"ID","total_cost"\n"a ""b"", c","gen-1","$0.0125"\n"two\nlines",gen-2,0.00000025',
    ],
    ['CSV with semicolons', '"id, of theirs";id;cost\nx;gen-1;0.0125\n"y;z";gen-2;0.00000025'],
    ['tabs', 'cost\tgeneration_id\n0.0125\tgen-1\n0.00000025\tgen-2'],
    ['a JSON list', '[{"id":"gen-1","cost":0.0125},{"id":"gen-2","cost":2.5e-7}]'],
    ['a JSON object with data', '{"data":[{"id":"gen-1","cost":"0.0125"},{"id":"gen-2","cost":0.00000025}]}'],
    ['JSON Lines', '{"id":"gen-1","cost":0.0125}\n\n{"id":"gen-2","cost":"0.00000025"}\n'],
  ])('in the form of %s', (_, text) => {
    expect(readUsageExport(text, {})).toEqual({ lines: two, rounded: 0 })
  })

  test('with columns that are named, also inside others', () => {
    const csv = 'id,gen,cost,usd\nx,gen-1,9,0.0125\nx,gen-2,9,0.00000025'
    expect(readUsageExport(csv, { upstream_id: 'GEN', cost: 'usd' }).lines).toEqual(two)
    const json = JSON.stringify(
      two.map(({ upstreamId }, at) => ({ a: { id: upstreamId }, usage: { usd: at } })),
    )
    expect(readUsageExport(json, { upstream_id: 'a.id', cost: 'usage.usd' }).lines).toEqual([
      { upstreamId: 'gen-1', cost: 0n },
      { upstreamId: 'gen-2', cost: usd(1) },
    ])
  })

  test.each([
    ['0.0000000000004', 0n, 1],
    ['0.0000000000005', 1n, 1],
    ['-0.0000000000005', -1n, 1],
    ['0.1000000000000', usd('0.1'), 0],
    ['0.00012300000000000001', usd('0.000123'), 1],
    ['1.5E+3', usd(1500), 0],
    ['-12.25', usd('-12.25'), 0],
    ['7.', usd(7), 0],
  ])('with the cost %p is %p picodollars', (text, cost, rounded) => {
    expect(readUsageExport(`id,cost\nx,${text}`, {})).toEqual({ lines: [{ upstreamId: 'x', cost }], rounded })
  })

  test('with a line that has no id, and one of no cost', () => {
    expect(readUsageExport('id,cost\n,20\nx,0', {}).lines).toEqual([
      { upstreamId: '', cost: usd(20) },
      { upstreamId: 'x', cost: 0n },
    ])
  })

  test.each([
    ['', {}, 'the file is empty'],
    ['id,cost\nx,ten', {}, 'line 2, column cost: a cost is US dollars such as 0.0125, not "ten"'],
    ['id,cost\nx,1\ny,"1,5"', {}, 'line 3, column cost'],
    ['id,cost\n"a\nb",1\ny,?', {}, 'line 4, column cost'],
    ['id,cost\nx,', {}, 'line 2, column cost: a cost is US dollars such as 0.0125, not ""'],
    ['id,cost\nx,1,2', {}, 'line 2: 3 cells where the heading has 2'],
    ['id,cost\nx,"1', {}, 'line 2: a quote is opened and never closed'],
    ['id,cost\n"x"y,1', {}, 'line 2: a cell goes on behind its closing quote'],
    ['id,cost\nx"y,1', {}, 'line 2: a quote stands inside a cell that does not begin with one'],
    ['id,id,cost\nx,y,1', {}, 'line 1: the column "id" stands there twice'],
    [
      'model,price\nx,1',
      {},
      'no column looks like the upstream_id: name it with --map upstream_id=COLUMN (there are: model, price)',
    ],
    ['id,price\nx,1', { cost: 'fee' }, 'there is no column "fee" for the cost (there are: id, price)'],
    ['[{"id":"x","cost":1}', {}, 'the JSON cannot be read'],
    ['[{"id":"x","cost":1},7]', {}, 'entry 2: it is not an object'],
    [
      '[{"id":"x","cost":1},{"id":"y"}]',
      {},
      'entry 2, column cost: a cost is US dollars such as 0.0125, not null',
    ],
    [
      '[{"id":{},"cost":1},{"id":[],"cost":1}]',
      { upstream_id: 'id' },
      'entry 1, column id: an id is text, not {}',
    ],
    ['{"id":"x","cost":1}\n{"id":', {}, 'line 2: '],
    ['{"id":"x","cost":1e999}', {}, 'entry 1, column cost'],
  ] as [string, object, string][])('%j with %j is refused: %s', (text, map, fault) => {
    expect(() => readUsageExport(text, map)).toThrow(fault)
  })
})

test('rows tell the line they begin on, whatever the cells hold', () => {
  expect(csvRows('a,b\n"1\n2",3\n\n4,5')).toEqual([
    { line: 1, cells: ['a', 'b'] },
    { line: 2, cells: ['1\n2', '3'] },
    { line: 5, cells: ['4', '5'] },
  ])
})

describe('an invoice', () => {
  const line = { day: '2026-11-28', model: 'gpt-5', cost: usd('12.5'), unit: usd('0.01'), tokens: null }

  test.each([
    ['a date', 'date,model,cost\n2026-11-28,gpt-5,12.50\n'],
    ['a time', 'Timestamp,Model,Cost\n2026-11-28 23:59:59,gpt-5,$12.50\n'],
    ['a time of another zone', 'day;model;cost\n2026-11-29T01:30:00+05:30;gpt-5;12.50\n'],
    ['seconds', '[{"start_time":1795824000,"model":"gpt-5","cost":"12.50"}]'],
    ['a day without dashes', 'usage_date,model,amount\n20261128,gpt-5,12.50\n'],
  ])('has days written as %s', (_, text) => {
    expect(isInvoice(text, {})).toBe(true)
    expect(readInvoice(text, {})).toEqual([line])
  })

  test('may have tokens, and costs inside others', () => {
    const text = JSON.stringify({
      data: [
        {
          day: '2026-11-28',
          model: 'gpt-5',
          amount: { value: '12.50' },
          input_tokens: 7,
          output_tokens: '1,000',
        },
      ],
    })
    expect(readInvoice(text, {})).toEqual([{ ...line, tokens: 1_007 }])
  })

  test('is none where there are ids, unless its columns are named', () => {
    const text = 'id,day,model,cost\ngen-1,2026-11-28,gpt-5,1\n'
    expect(isInvoice(text, {})).toBe(false)
    expect(isInvoice(text, { day: 'day' })).toBe(true)
    expect(isInvoice('day,cost\n2026-11-28,1\n', {})).toBe(false)
  })

  test('that cannot be read is named by line and column', () => {
    const read = (text: string) => () => readInvoice(text, {})
    expect(read('day,model,cost\nyesterday,gpt-5,1\n')).toThrow(
      'line 2, column day: a day is written as 2026-11-28',
    )
    expect(read('day,model,cost,input_tokens\n2026-11-28,gpt-5,1,many\n')).toThrow(
      'tokens are a whole number',
    )
  })
})
