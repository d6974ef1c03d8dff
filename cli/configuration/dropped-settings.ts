import type { Json } from '../../internal/config/index.ts';

/** Paths of keys and list elements that are in `before` but not in `after`. A changed value is not a loss. Pure. */
export function droppedSettings(before: Json, after: Json, path = ''): readonly string[] {
  if (Array.isArray(before)) return Array.isArray(after) ? droppedFromList(before, after, path) : [];
  if (!isMap(before) || !isMap(after)) return [];
  return Object.entries(before).flatMap(([key, value]) => {
    const at = path === '' ? key : `${path}.${key}`;
    const kept = Object.hasOwn(after, key) ? after[key] : undefined;
    return kept === undefined ? [at] : droppedSettings(value, kept, at);
  });
}

function droppedFromList(before: readonly Json[], after: readonly Json[], path: string): readonly string[] {
  const kept = new Map(after.map((each) => [nameOf(each), each]));
  return before.flatMap((each) => {
    const at = `${path}[${nameOf(each)}]`;
    const same = kept.get(nameOf(each));
    return same === undefined ? [at] : droppedSettings(each, same, at);
  });
}

/** The name of a list element in a path: the identity of a machine, the value of any other element. */
function nameOf(value: Json): string {
  const identity = isMap(value) ? value['identity'] : undefined;
  if (typeof identity === 'string') return identity;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isMap(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
