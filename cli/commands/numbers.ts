import { InvalidArgumentError } from 'commander';

/** A whole number in a range, as a flag's value. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const count = /^[0-9]{1,9}$/.test(text) ? Number(text) : -1;
    if (count < least || count > most) throw new InvalidArgumentError(`It must be ${least} to ${most}.`);
    return count;
  };
}

/** "90s", "10m", "1h" → milliseconds. */
export function duration(text: string): number {
  const [, count = '', unit = ''] = /^([1-9][0-9]{0,5})(s|m|h)$/.exec(text) ?? [];
  const unitMs = { s: 1_000, m: 60_000, h: 3_600_000 }[unit];
  if (unitMs === undefined) throw new InvalidArgumentError('It must be like 90s, 10m or 1h.');
  return Number(count) * unitMs;
}
