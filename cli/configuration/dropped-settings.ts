import type { Json } from '../../internal/config/index.ts';

/**
 * What one configuration has and the other does not, each by its place: keys that are gone, and elements of lists. A value that
 * became another one is a change and no loss. Pure.
 */
export function droppedSettings(before: Json, after: Json, place = ''): readonly string[] {
  if (Array.isArray(before)) return Array.isArray(after) ? droppedFromList(before, after, place) : [];
  if (!isMap(before) || !isMap(after)) return [];
  return Object.entries(before).flatMap(([key, value]) => {
    const at = place === '' ? key : `${place}.${key}`;
    const kept = Object.hasOwn(after, key) ? after[key] : undefined;
    return kept === undefined ? [at] : droppedSettings(value, kept, at);
  });
}

function droppedFromList(before: readonly Json[], after: readonly Json[], place: string): readonly string[] {
  const kept = new Map(after.map((each) => [nameOf(each), each]));
  return before.flatMap((each) => {
    const at = `${place}[${nameOf(each)}]`;
    const same = kept.get(nameOf(each));
    return same === undefined ? [at] : droppedSettings(each, same, at);
  });
}

/** Machines have an identity; anything else is its own name. */
function nameOf(value: Json): string {
  const identity = isMap(value) ? value['identity'] : undefined;
  if (typeof identity === 'string') return identity;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isMap(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
