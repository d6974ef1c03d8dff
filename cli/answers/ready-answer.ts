import { READY_KEYS, READY_TEXTS } from './ready.ts';

/** The prebuilt output for exactly these arguments; undefined for all other arguments. */
export function readyAnswer(args: readonly string[]): string | undefined {
  const key = keyOf(args);
  const index = Object.hasOwn(READY_KEYS, key) ? READY_KEYS[key] : undefined;
  return index === undefined ? undefined : READY_TEXTS[index];
}

/** The arguments as one string, separated by NUL, which no argument can contain. */
export function keyOf(args: readonly string[]): string {
  return args.join('\0');
}
