/**
 * A number with its noun: "1 voter", "3 voters".
 * @param many the plural, if it is not the noun with an s
 */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
