// What the pages of /docs do in a browser: search, the menu of a phone, copying, and calls that a reader tries. Every
// page can be read without it.

const { docs } = document.currentScript.dataset
const byId = (id) => document.getElementById(id)

// The menu of a narrow screen.

const menu = byId('menu')
const pages = byId('pages')
menu.addEventListener('click', () => {
  menu.setAttribute('aria-expanded', String(pages.classList.toggle('open')))
})

// Search: all words must be found; those in headings count most.

const search = byId('search')
const found = byId('found')
let entries

async function load() {
  entries ??= (await fetch(`${docs}search.json`)).json()
  return entries
}

function score(entry, words) {
  const places = [entry.heading, entry.title, entry.text].map((text) => text.toLowerCase())
  let sum = 0
  for (const word of words) {
    const at = places.findIndex((text) => text.includes(word))
    if (at === -1) return 0
    sum += [8, 4, 1][at]
  }
  return entry.heading === '' ? sum + 1 : sum
}

function around(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40)
  return (at > 0 ? '… ' : '') + text.slice(at, at + 120)
}

function show(list, words) {
  found.replaceChildren()
  for (const entry of list) {
    const link = document.createElement('a')
    link.href = docs + entry.page + (entry.anchor ? `#${entry.anchor}` : '')
    link.append(entry.heading ? `${entry.title}: ${entry.heading}` : entry.title)
    const small = document.createElement('small')
    small.textContent = around(entry.text, words[0])
    link.append(small)
    const item = document.createElement('li')
    item.append(link)
    found.append(item)
  }
  if (list.length === 0) {
    const none = document.createElement('li')
    none.innerHTML = '<p role="status">Nothing has all these words.</p>'
    found.append(none)
  }
  found.hidden = false
}

async function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) {
    found.hidden = true
    return
  }
  const all = await load()
  const ranked = all
    .map((entry) => ({ entry, points: score(entry, words) }))
    .filter(({ points }) => points > 0)
    .toSorted((a, b) => b.points - a.points)
    .slice(0, 12)
  show(
    ranked.map(({ entry }) => entry),
    words,
  )
}

search.addEventListener('focus', () => void load())
search.addEventListener('input', () => void find())
addEventListener('keydown', (event) => {
  const isTyping = /^(input|textarea|select)$/i.test(document.activeElement?.tagName ?? '')
  if (event.key === '/' && !isTyping) {
    event.preventDefault()
    search.focus()
  }
  if (event.key === 'Escape') found.hidden = true
  const links = [...found.querySelectorAll('a')]
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (found.hidden || step === undefined || links.length === 0) return
  const at = links.indexOf(document.activeElement)
  if (at === -1 && document.activeElement !== search) return
  event.preventDefault()
  const next = links[at + step]
  if (next) next.focus()
  else if (step === -1) search.focus()
})
addEventListener('click', (event) => {
  if (!event.target.closest('search')) found.hidden = true
})

// The guide is written for a gateway on this machine; a reader elsewhere copies the address that this page has.

const here = new URL(docs === '' ? '..' : '.', location.href).href.replace(/\/$/, '')
for (const code of document.querySelectorAll('pre code'))
  code.textContent = code.textContent.replaceAll('http://127.0.0.1:8787', here)

// Copying.

if (navigator.clipboard) {
  for (const block of document.querySelectorAll('pre[data-language]')) {
    const frame = document.createElement('div')
    frame.className = 'block'
    block.replaceWith(frame)
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.textContent = 'Copy'
    const copy = async () => {
      await navigator.clipboard.writeText(block.textContent)
      button.textContent = 'Copied'
      setTimeout(() => (button.textContent = 'Copy'), 2000)
    }
    button.addEventListener('click', () => void copy())
    frame.append(block, button)
  }
}

// Calls that a reader tries. The key is kept in this tab alone.

const keyOf = (scheme) => `weir-docs-${scheme}`
for (const form of document.querySelectorAll('form[data-method]')) {
  const { method, path, scheme } = form.dataset
  const key = form.elements.namedItem('key')
  const output = form.querySelector('output')
  if (key) key.value = sessionStorage.getItem(keyOf(scheme)) ?? ''
  const send = async () => {
    const headers = {}
    if (key?.value) {
      sessionStorage.setItem(keyOf(scheme), key.value)
      headers.authorization = `Bearer ${key.value}`
    }
    const query = new URLSearchParams()
    let filled = path
    for (const field of form.querySelectorAll('input[data-in]')) {
      if (field.dataset.in === 'path')
        filled = filled.replace(`{${field.name}}`, encodeURIComponent(field.value).replaceAll('%2F', '/'))
      else if (field.value && field.dataset.in === 'query') query.set(field.name, field.value)
      else if (field.value) headers[field.name] = field.value
    }
    const body = form.elements.namedItem('body')?.value
    if (body !== undefined) headers['content-type'] = 'application/json'
    const address = new URL(`..${filled}`, location.href)
    address.search = query
    const shown = document.createElement('pre')
    shown.tabIndex = 0
    output.replaceChildren(shown)
    shown.textContent = 'Waiting …'
    try {
      const answer = await fetch(address, { method, headers, body })
      shown.textContent = `${answer.status} ${answer.statusText}\n`
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
      let text = ''
      for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
        text += part.value
        shown.textContent = `${answer.status} ${answer.statusText}\n\n${text}`
      }
      if (answer.headers.get('content-type')?.startsWith('application/json'))
        shown.textContent = `${answer.status}\n\n${JSON.stringify(JSON.parse(text), null, 2)}`
    } catch (error) {
      shown.textContent = String(error)
    }
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void send()
  })
}
