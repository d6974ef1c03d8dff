/** Which names of settings have a secret as their value. */

/** Parts of names, wherever they are in the name. */
const PARTS =
  /passw(?:or)?d|passphrase|passcode|secret|token|credential|authorization|cookie|sessionid|key[_-]?data|connection[_-]?string|(?:api|private|access|account|shared|encryption|master|signing|hmac|session|storage|license|deploy|psk|ssh|wireguard|jwt|webhook|client|root|seal|unseal|host)[ _.-]?key/i;
/** Words that are too short to be looked for inside of other words. */
const WORDS: ReadonlySet<string> = new Set([
  ...['auth', 'pass', 'passwd', 'pwd', 'pw', 'psk', 'cred', 'creds', 'otp', 'sig', 'pat'],
]);
/** Names that end with one of these words do not have a secret as their value, but its place, kind or another harmless property. */
const HARMLESS_ENDS: ReadonlySet<string> = new Set([
  ...['name', 'names', 'namespace', 'ref', 'refs', 'path', 'file', 'files', 'dir', 'url', 'mount', 'mode'],
  ...[
    'type',
    'kind',
    'class',
    'version',
    'format',
    'count',
    'size',
    'length',
    'method',
    'provider',
    'policy',
  ],
  ...['at', 'ms', 'seconds', 'ttl', 'expiry', 'expires', 'expiration', 'lifetime', 'age', 'timeout'],
  ...['enabled', 'required', 'status', 'error', 'errors', 'id', 'ids', 'controller', 'cleaner', 'manager'],
]);
/** The same ends in names that are written as one word. */
const HARMLESS_END =
  /(?:secret|token|password|credential|key)s?(?:names?|refs?|path|file|type|kind|count|version|seconds)$/i;
/** Ids that are secrets themselves. */
const SECRET_IDS: ReadonlySet<string> = new Set(['secret', 'session', 'sess']);

/** Whether the value of this setting is a secret. Linear in the length of the name. */
export function isSecretName(name: string): boolean {
  const words = wordsOf(name);
  const last = words.at(-1) ?? '';
  if (last === 'id' && SECRET_IDS.has(words.at(-2) ?? '')) return true;
  if (HARMLESS_ENDS.has(last) || HARMLESS_END.test(name)) return false;
  return PARTS.test(name) || words.some((word) => WORDS.has(word));
}

/** The words of `DB_PASSWORD`, `dbPassword` and `db-password`, in lower case. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}
