import { createHash } from 'node:crypto';

/** Reproducible text of an alphabet. */
export function random(seed: string, length: number, alphabet: string): string {
  let text = '';
  for (let round = 0; text.length < length; round++)
    for (const byte of createHash('sha256').update(`${seed} ${round}`).digest())
      text += alphabet[byte % alphabet.length] ?? '';
  return text.slice(0, length);
}

const LOWER = 'abcdefghijklmnopqrstuvwxyz0123456789';
const UPPER = LOWER.toUpperCase();
const MIXED = `ABCDEFGHIJKLMNOPQRSTUVWXYZ${LOWER}`;
/** The characters of base64. */
export const BASE64 = `${MIXED}+/`;

/** A secret as it stands in a line, and the part of it that must not be seen again. */
export interface Planted {
  readonly line: string;
  readonly secret: string;
}

/** The shapes in which secrets get into logs. */
const SHAPES: Readonly<Record<string, (seed: string) => Planted>> = {
  'PEM key over several lines': (seed) => {
    const secret = random(seed, 64, BASE64);
    return { secret, line: `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----` };
  },
  'PEM key in JSON': (seed) => {
    const secret = random(seed, 64, BASE64);
    const value = `-----BEGIN EC PRIVATE KEY-----\n${secret}\n-----END EC PRIVATE KEY-----`;
    return { secret, line: JSON.stringify({ message: `wrote ${value}` }) };
  },
  'PEM key that is cut': (seed) => {
    const secret = random(seed, 64, BASE64);
    return { secret, line: `-----BEGIN OPENSSH PRIVATE KEY-----\n${secret}` };
  },
  'PEM key in base64': (seed) => {
    const secret = random(seed, 60, BASE64);
    return { secret, line: `key LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt${secret}==` };
  },
  'PKCS #8 in base64': (seed) => {
    const secret = random(seed, 43, BASE64);
    return { secret, line: `loaded MC4CAQAwBQYDK2VwBCIEI${secret}=` };
  },
  'age identity': (seed) => {
    const secret = random(seed, 58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L');
    return { secret, line: `using AGE-SECRET-KEY-1${secret}` };
  },
  'JSON web token': (seed) => {
    const secret = random(seed, 43, MIXED);
    return { secret, line: `token eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.${secret}` };
  },
  'bearer header': (seed) => {
    const secret = random(seed, 32, MIXED);
    return { secret, line: `> Authorization: Bearer ${secret}` };
  },
  'basic header': (seed) => {
    const secret = random(seed, 24, BASE64);
    return { secret, line: `curl -H "authorization: basic ${secret}=="` };
  },
  'user and password in a URL': (seed) => {
    const secret = random(seed, 16, MIXED);
    return { secret, line: `dialing postgres://app:${secret}@198.18.0.9:5432/app` };
  },
  'bootstrap token': (seed) => {
    const secret = random(seed, 16, LOWER);
    return { secret, line: `joining with ${random(`${seed}i`, 6, LOWER)}.${secret}` };
  },
  'AWS access key': (seed) => {
    const secret = random(seed, 16, UPPER);
    return { secret, line: `id AKIA${secret}` };
  },
  'GitHub token': (seed) => {
    const secret = random(seed, 36, MIXED);
    return { secret, line: `pulled with ghp_${secret}` };
  },
  'Slack token': (seed) => {
    const secret = random(seed, 24, MIXED);
    return { secret, line: `hook xoxb-1234567890-${secret}` };
  },
  'Google API key': (seed) => {
    const secret = random(seed, 35, MIXED);
    return { secret, line: `maps AIza${secret}` };
  },
  'setting with =': (seed) => {
    const secret = random(seed, 14, `${MIXED}!$%,;`);
    return { secret, line: `DB_PASSWORD=x${secret} started` };
  },
  'quoted setting': (seed) => {
    const secret = `${random(seed, 7, MIXED)} ${random(seed, 7, `${MIXED}:=,`)}`;
    return { secret, line: `loaded {"user": "a", "clientSecret": "${secret}"}` };
  },
  'setting in YAML': (seed) => {
    const secret = random(seed, 20, BASE64);
    return { secret, line: `    client-key-data: ${secret}` };
  },
  'flag with a space': (seed) => {
    const secret = random(seed, 14, MIXED);
    return { secret, line: `exec: mysqldump --password ${secret} --all-databases` };
  },
  'field of a JSON line': (seed) => {
    const secret = random(seed, 18, `${MIXED}"\\`);
    return { secret, line: JSON.stringify({ time: '2026-11-24', fields: { api_key: secret } }) };
  },
};

/** 200 secrets of 20 shapes. */
export function plantedSecrets(): readonly (Planted & { readonly shape: string })[] {
  return Object.entries(SHAPES).flatMap(([shape, plant]) =>
    Array.from({ length: 10 }, (_, index) => ({ shape, ...plant(`${shape} ${index}`) })),
  );
}
