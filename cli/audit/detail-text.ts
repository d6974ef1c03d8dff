import { printable } from '../../internal/printable/index.ts';
import { roleNames } from '../../internal/role/index.ts';

/**
 * The detail of an audit entry for people: "name=n1 roles=worker,control-plane documents.grant=2". Texts with blanks are quoted.
 * Roles have the names that commands use. Programs get the detail itself.
 */
export function detailText(detail: unknown): string {
  return printable(members('', detail).join(' ')) || '<none>';
}

function members(path: string, value: unknown): readonly string[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) {
    const isFlat = value.every((item) => typeof item !== 'object');
    if (isFlat) return value.length === 0 ? [] : [`${path}=${shownNames(value.map(word)).join(',')}`];
    return value.flatMap((item, index) => members(`${path}[${index}]`, item));
  }
  if (typeof value === 'object')
    return Object.entries(value).flatMap(([key, item]) =>
      members(path === '' ? key : `${path}.${key}`, item),
    );
  return [path === '' ? word(value) : `${path}=${word(value)}`];
}

/**
 * Roles of records by their names in commands; other words as they are. Records write roles with capitals, which no name of a
 * node has: a node may be called `controller`.
 */
function shownNames(words: readonly string[]): readonly string[] {
  const isRoles = words.every((each) => /^[A-Z]/.test(each) && roleNames([each])[0] !== each);
  return isRoles ? roleNames(words) : words;
}

function word(value: unknown): string {
  const text = String(value);
  return /^[^\s"=,]+$/.test(text) ? text : JSON.stringify(text);
}
