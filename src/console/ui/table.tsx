// Tables: a label, the names of the columns, and rows.

import type { ReactNode } from 'react'

/** The name of a column, which also identifies it within its table. */
type Column = string | { readonly name: string; readonly className: string }

/** A column of numbers, aligned at their ends. */
export function numeric(name: string): Column {
  return { name, className: 'num' }
}

export function rightAligned(name: string): Column {
  return { name, className: 'text-right' }
}

/** A column whose name is only read by screen readers. */
export function screenReaderOnly(name: string): Column {
  return { name, className: 'sr-only' }
}

/** A table that scrolls sideways on a narrow screen. */
export function Table({
  label,
  columns,
  children,
}: {
  label: string
  columns: readonly Column[]
  children: ReactNode
}) {
  return (
    <div className="card relative overflow-x-auto" role="group" aria-label={label} tabIndex={0}>
      <table className="w-full border-collapse text-left [&_td]:px-3 [&_td]:py-2 [&_th]:px-3 [&_th]:py-2 [&_tbody_tr]:border-t [&_tbody_tr]:border-line">
        <thead className="text-[12px] text-muted [&_th]:font-medium [&_th]:whitespace-nowrap">
          <tr>
            {columns.map((column) => (
              <Head key={typeof column === 'string' ? column : column.name} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

function Head({ column }: { column: Column }) {
  if (typeof column === 'string') return <th scope="col">{column}</th>
  const { name, className } = column
  if (className === 'sr-only')
    return (
      <th scope="col">
        <span className="sr-only">{name}</span>
      </th>
    )
  return (
    <th scope="col" className={className}>
      {name}
    </th>
  )
}
