/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A path in a document: keys of maps, and `[identity]` for list elements with an identity. */
export type JsonPath = readonly string[];

/** A value that both sides have changed differently. undefined: the value does not exist. */
export interface Conflict {
  readonly path: JsonPath;
  readonly base: Json | undefined;
  readonly mine: Json | undefined;
  readonly current: Json | undefined;
}

/** The result of a merge. */
export interface Merge {
  readonly merged: Json;
  readonly conflicts: readonly Conflict[];
  /** The paths of the values of `current` that change. */
  readonly changes: readonly JsonPath[];
}

/**
 * Applies the changes between `base` and `mine` to `current`. Maps are merged by key, lists of machines by `identity`; any other list is
 * one value. A value that both sides have changed differently is a conflict.
 */
export function mergeThreeWay(documents: {
  readonly base: Json;
  readonly mine: Json;
  readonly current: Json;
}): Merge {
  const conflicts: Conflict[] = [];
  const changes: JsonPath[] = [];
  const merged = merge([], documents, { conflicts, changes });
  return { merged: merged ?? null, conflicts, changes };
}

/** The deepest paths at which two documents differ. */
export function differencesOf(before: Json, after: Json): readonly JsonPath[] {
  return mergeThreeWay({ base: before, mine: after, current: before }).changes;
}

/** Deep equality of JSON values. */
export function isSameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  const [keysA, keysB] = [Object.keys(a), Object.keys(b)];
  return (
    keysA.length === keysB.length &&
    keysA.every((key) => Object.hasOwn(b, key) && isSameJson(valueAt(a, key), valueAt(b, key)))
  );
}

interface Found {
  readonly conflicts: Conflict[];
  readonly changes: JsonPath[];
}

type Versions = { readonly [K in 'base' | 'mine' | 'current']: Json | undefined };

function merge(path: JsonPath, versions: Versions, found: Found): Json | undefined {
  const { base, mine, current } = versions;
  if (isSameJson(mine, base) || isSameJson(mine, current)) return current;
  const keyed = [mapOf(base), mapOf(mine), mapOf(current)] as const;
  if (keyed[1] !== undefined && keyed[2] !== undefined && keyed[1].kind === keyed[2].kind)
    return mergeKeyed(path, { base: keyed[0], mine: keyed[1], current: keyed[2] }, found);
  if (isSameJson(base, current)) found.changes.push(path);
  else found.conflicts.push({ path, base, mine, current });
  return mine;
}

interface Keyed {
  readonly kind: 'map' | 'list';
  readonly values: ReadonlyMap<string, Json>;
}

function mergeKeyed(
  path: JsonPath,
  versions: { readonly base: Keyed | undefined; readonly mine: Keyed; readonly current: Keyed },
  found: Found,
): Json {
  const { base, mine, current } = versions;
  const keys = new Set([...current.values.keys(), ...mine.values.keys()]);
  const merged = [...keys].flatMap((key): readonly (readonly [string, Json])[] => {
    const values = {
      base: base?.values.get(key),
      mine: mine.values.get(key),
      current: current.values.get(key),
    };
    const value = merge([...path, mine.kind === 'list' ? `[${key}]` : key], values, found);
    return value === undefined ? [] : [[key, value]];
  });
  return mine.kind === 'list' ? merged.map(([, value]) => value) : Object.fromEntries(merged);
}

/** The keyed form of a map, or of a list whose elements have unique identities (an empty list too); undefined for any other value. */
function mapOf(value: Json | undefined): Keyed | undefined {
  if (!isObject(value)) return undefined;
  if (!Array.isArray(value)) return { kind: 'map', values: new Map(Object.entries(value)) };
  const entries = (value as readonly Json[]).map((each) => [identityOf(each), each] as const);
  const named = entries.filter((entry): entry is [string, Json] => entry[0] !== undefined);
  const values = new Map(named);
  return values.size === entries.length ? { kind: 'list', values } : undefined;
}

function identityOf(value: Json): string | undefined {
  const identity = isObject(value) && !Array.isArray(value) ? valueAt(value, 'identity') : undefined;
  return typeof identity === 'string' ? identity : undefined;
}

function valueAt(value: object, key: string): Json | undefined {
  return (value as Readonly<Record<string, Json>>)[key];
}

function isObject(value: Json | undefined): value is readonly Json[] | { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null;
}
