const MAX_TEXT = 2000;

/**
 * Text of another machine, cut and without what could steer the operator's terminal. The limit is in an
 * object, so that the compiler refuses `map(printable)`, which would hand on an index as limit.
 */
export function printable(
  text: string,
  { maxChars = MAX_TEXT }: { readonly maxChars?: number } = {},
): string {
  return text.slice(0, maxChars).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '?');
}
