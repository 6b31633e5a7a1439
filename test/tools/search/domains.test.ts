import { describe, expect, test } from 'bun:test'
import { domainFilter, hostsOf } from '../../../src/tools/search/search-tool.ts'

describe('a domain rule', () => {
  test.each([
    // rule                     address                                fits
    ['example.com', 'https://example.com/', true],
    ['example.com', 'https://www.example.com/a', true],
    ['example.com', 'https://a.b.example.com/a', true],
    ['example.com', 'https://badexample.com/', false],
    ['example.com', 'https://example.com.evil.example/', false],
    ['www.example.com', 'https://example.com/', false],
    ['EXAMPLE.com.', 'https://example.COM./x', true],
    ['https://example.com/', 'http://example.com/a', true],
    ['*.example.com', 'https://a.example.com/', true],
    ['example.com/docs', 'https://example.com/docs', true],
    ['example.com/docs', 'https://example.com/docs/a', true],
    ['example.com/docs', 'https://example.com/docsearch', false],
    ['example.com/docs/', 'https://www.example.com/docs/x', true],
    ['example.com/*/news', 'https://example.com/2026/news/1', true],
    ['example.com/*/news', 'https://example.com/news', false],
    ['example.com/a.b(c', 'https://example.com/a.b(c/d', true],
    ['bücher.example', 'https://xn--bcher-kva.example/', true],
    ['example.com', 'not an address', false],
  ])('%s and %s: %p', (rule, url, fits) => {
    expect(domainFilter([rule], [])(url)).toBe(fits)
    if (URL.canParse(url)) expect(domainFilter([], [rule])(url)).toBe(!fits)
  })

  test('a blocked part of an allowed domain is blocked', () => {
    const allows = domainFilter(['example.com'], ['example.com/private', 'ads.example.com'])
    expect(
      ['https://example.com/a', 'https://example.com/private/a', 'https://ads.example.com/'].map(allows),
    ).toEqual([true, false, false])
  })

  test('backends are given hosts alone, each once', () => {
    expect(hostsOf(['https://Example.com/docs', 'example.com', 'a.example'])).toEqual([
      'example.com',
      'a.example',
    ])
  })

  test.each([
    [''],
    ['a b'],
    ['example.com:8080'],
    ['user@example.com'],
    ['ex*mple.com'],
    ['a/*/*'],
    ['x'.repeat(2000)],
  ])('%j is none', (rule) => {
    expect(() => domainFilter([rule], [])).toThrow('is not a domain')
  })

  test('there are at most a hundred', () => {
    expect(() =>
      domainFilter(
        Array.from({ length: 101 }, () => 'a.example'),
        [],
      ),
    ).toThrow('more than 100')
  })
})
