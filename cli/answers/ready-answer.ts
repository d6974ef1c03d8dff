import { READY_KEYS, READY_TEXTS } from './ready.ts';

/** The answer to exactly these arguments. Whatever is not known word for word is for the app. */
export function readyAnswer(args: readonly string[]): string | undefined {
  const key = keyOf(args);
  const place = Object.hasOwn(READY_KEYS, key) ? READY_KEYS[key] : undefined;
  return place === undefined ? undefined : READY_TEXTS[place];
}

/** Arguments as one string; none can hold a NUL. */
export function keyOf(args: readonly string[]): string {
  return args.join('\0');
}
