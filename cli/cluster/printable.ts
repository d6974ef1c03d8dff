const MAX_TEXT = 2000;

/** Text of another machine, cut and without what could steer the operator's terminal. */
export function printable(text: string, maxChars: number = MAX_TEXT): string {
  return text.slice(0, maxChars).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '?');
}
