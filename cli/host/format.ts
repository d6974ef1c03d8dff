/** 412 ms, 3.2 s, 2 min 5 s, 3 h 7 min, 5 d 2 h: two units at most. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return twoUnits(seconds, 60, 'min', 's');
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return twoUnits(minutes, 60, 'h', 'min');
  return twoUnits(Math.floor(minutes / 60), 24, 'd', 'h');
}

/** The age of an object as kubectl shows it: 12s, 5m, 3h, 9d. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Binary units: 512 B, 4.0 KiB, 93.1 MiB. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(value) : value.toFixed(1)} ${units[unit]}`;
}

/** "93.1 MiB of 311.0 MiB, 30 %" or "3 of 12". */
export function formatShare(done: {
  readonly of: number;
  readonly value: number;
  readonly unit: 'bytes' | 'steps';
}): string {
  if (done.unit === 'steps') return `${done.value} of ${done.of}`;
  const percent = done.of === 0 ? 100 : Math.floor((done.value / done.of) * 100);
  return `${formatBytes(done.value)} of ${formatBytes(done.of)}, ${percent} %`;
}

/** One row per object, columns by two spaces, no line longer than needed. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function twoUnits(total: number, per: number, large: string, small: string): string {
  const rest = total % per;
  return rest === 0 ? `${total / per} ${large}` : `${Math.floor(total / per)} ${large} ${rest} ${small}`;
}
