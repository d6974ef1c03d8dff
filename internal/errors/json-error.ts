/** V8 names the position in some of its messages only. */
const POSITION = /\(line (\d+) column (\d+)\)$/;

/**
 * What is wrong with a text that `JSON.parse()` refused, for people. The message of V8 quotes the text, which may be a secret.
 * Undefined for any other error.
 */
export function describeJsonError({ name, message }: Pick<Error, 'name' | 'message'>): string | undefined {
  if (name !== 'SyntaxError' || !message.includes('JSON')) return undefined;
  const [, line, column] = POSITION.exec(message) ?? [];
  if (line !== undefined) return `not JSON (line ${line}, column ${column})`;
  return message.startsWith('Unexpected end') ? 'not JSON: it ends too early' : 'not JSON';
}
