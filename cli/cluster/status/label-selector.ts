/** Whether labels match a selector. */
export type LabelSelector = (labels: Readonly<Record<string, string>>) => boolean;

const REQUIREMENT =
  /^(?:(?<absent>!)?(?<key>[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?)|(?<of>[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?)\s*(?<operator>==?|!=)\s*(?<value>[A-Za-z0-9_.-]*))$/;

/**
 * A label selector as kubectl takes it: requirements `KEY=VALUE`, `KEY!=VALUE`, `KEY` and `!KEY`, separated by commas.
 * @returns undefined if the text is no such selector
 */
export function parseSelector(text: string): LabelSelector | undefined {
  const parts = text.split(',').map((part) => requirement(part.trim()));
  if (parts.some((part) => part === undefined)) return undefined;
  return (labels) => parts.every((part) => part?.(labels) === true);
}

function requirement(text: string): LabelSelector | undefined {
  const { absent, key, of, operator, value } = REQUIREMENT.exec(text)?.groups ?? {};
  if (key !== undefined) return (labels) => Object.hasOwn(labels, key) === (absent === undefined);
  if (of === undefined || value === undefined) return undefined;
  const has: LabelSelector = (labels) => Object.hasOwn(labels, of) && labels[of] === value;
  return operator === '!=' ? (labels) => !has(labels) : has;
}
