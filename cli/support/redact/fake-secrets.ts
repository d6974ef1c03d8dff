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
  'JSON in a quoted string': (seed) => {
    const secret = random(seed, 14, `${MIXED} "\\`);
    const inner = JSON.stringify({ user: 'a', password: `x${secret}y`, port: 1 });
    return { secret, line: `E1124 10:00:00.1 7 a.go:1] "failed" err=${JSON.stringify(inner)} pod="a/b"` };
  },
  'JSON in a string in a string': (seed) => {
    const secret = random(seed, 14, `${MIXED} `);
    const inner = JSON.stringify(JSON.stringify({ clientSecret: `x${secret}y` }));
    return { secret, line: `level=error msg=${JSON.stringify(`answer ${inner}`)}` };
  },
  'environment variable of a pod': (seed) => {
    const secret = random(seed, 14, `${MIXED} :,`);
    return { secret, line: `spec {"name":"DB_PASSWORD","value":"x${secret}y"},{"name":"A","value":"b"}` };
  },
  'environment variable of a pod, value first': (seed) => {
    const secret = random(seed, 14, MIXED);
    return { secret, line: `spec [{"value": "${secret}", "name": "API_TOKEN"}]` };
  },
  'environment variable of a pod over lines': (seed) => {
    const secret = random(seed, 14, MIXED);
    return { secret, line: `- name: DB_PASSWORD\n  value: ${secret}\n- name: A` };
  },
  'environment variable in a Go structure': (seed) => {
    const secret = `${random(seed, 7, MIXED)} ${random(`${seed}b`, 7, MIXED)}`;
    return { secret, line: `Env:[{Name:DB_PASSWORD Value:${secret} ValueFrom:nil} {Name:A Value:b}]` };
  },
  'environment variable in a request of CRI': (seed) => {
    const secret = random(seed, 14, MIXED);
    return { secret, line: `Envs:[]*KeyValue{&KeyValue{Key:DB_PASSWORD,Value:${secret},},}` };
  },
  'XML element': (seed) => {
    const secret = `${random(seed, 7, MIXED)} ${random(`${seed}b`, 7, MIXED)}`;
    return { secret, line: `<login><user>a</user><password>${secret}</password></login>` };
  },
  'setting with a short name': (seed) => {
    const secret = random(seed, 14, MIXED);
    const names = ['pwd', 'PASS', 'DB_PASS', 'smtp.pass', 'userPwd', 'wifi-psk'];
    return { secret, line: `${names[secret.charCodeAt(0) % names.length] ?? ''}=x${secret} ok` };
  },
  'connection string of a database': (seed) => {
    const secret = random(seed, 14, MIXED);
    return { secret, line: `opening "Server=db;Uid=sa;Pwd=${secret};Encrypt=yes"` };
  },
  'shared key': (seed) => {
    const secret = random(seed, 24, BASE64);
    return { secret, line: `AccountName=a;SharedKey=${secret};sharedKey=${secret}` };
  },
  'secret id': (seed) => {
    const secret = random(seed, 24, MIXED);
    return { secret, line: `approle secret_id=${secret} session_id=${secret} secretId: ${secret}` };
  },
  'password in a sentence': (seed) => {
    const secret = random(seed, 10, MIXED);
    return { secret, line: `trying password x${secret} for user a, password is "${secret}"` };
  },
  'token in a sentence': (seed) => {
    const secret = `aB1${random(seed, 24, MIXED)}`;
    return { secret, line: `using token ${secret} for the registry` };
  },
  'user flag of curl': (seed) => {
    const secret = random(seed, 14, MIXED);
    return {
      secret,
      line: `curl -su app:${secret} -u app:${secret} --user 'app:${secret}' https://a.invalid`,
    };
  },
  'password flag of a program': (seed) => {
    const secret = random(seed, 14, MIXED);
    return { secret, line: `mysql -u root -p${secret} shop; sshpass -p ${secret} ssh a` };
  },
  'flag in a list of arguments': (seed) => {
    const secret = `${random(seed, 7, MIXED)} ${random(`${seed}b`, 7, MIXED)}`;
    return { secret, line: `exec ["login","--password","${secret}"] ["a" "--token" "${secret}"]` };
  },
  'arguments in a JSON line': (seed) => {
    const secret = random(seed, 14, `${MIXED} `);
    return { secret, line: JSON.stringify({ args: ['login', '--password', `x${secret}y`] }) };
  },
  'token as the user of a URL': (seed) => {
    const secret = random(seed, 24, MIXED);
    return { secret, line: `cloning https://${secret}@git.example.invalid/a.git` };
  },
  'value on the next line': (seed) => {
    const secret = random(seed, 14, `${MIXED} `);
    return { secret, line: `password:\n  x${secret}y\nuser: a` };
  },
  'block of YAML': (seed) => {
    const secret = random(seed, 14, `${MIXED} `);
    return { secret, line: `  tls-token: |-\n    first\n    x${secret}y\n  user: a` };
  },
  'header of several words': (seed) => {
    const secret = random(seed, 24, MIXED);
    return { secret, line: `curl -H "Authorization: token ${secret}" -H 'Cookie: a=b; sid=${secret}' x` };
  },
  'setting that is cut': (seed) => {
    const secret = `${random(seed, 7, MIXED)} ${random(`${seed}b`, 7, MIXED)}`;
    return { secret, line: `loaded {"client_secret":"${secret}` };
  },
  'setting after a harmless one': (seed) => {
    const secret = random(seed, 14, MIXED);
    return {
      secret,
      line: `GET /a?tokenType=b&password=${secret}&secretName=c secretPath=password=${secret}`,
    };
  },
};

/** How many secrets of each shape. */
const EACH = 10;

/** Ten secrets of each shape: more than 200 of more than 20 shapes. */
export function plantedSecrets(): readonly (Planted & { readonly shape: string })[] {
  return Object.entries(SHAPES).flatMap(([shape, plant]) =>
    Array.from({ length: EACH }, (_, index) => ({ shape, ...plant(`${shape} ${index}`) })),
  );
}
