import { expect, test } from '@jest/globals';
import { printable } from '../../../internal/printable/index.ts';
import { BASE64, plantedSecrets, random } from './fake-secrets.ts';
import { redactJson, redactText } from './redact.ts';
import { REMOVED } from './settings.ts';

/** Some lines of 1 MiB take half a second; quadratic time would be minutes. */
const SLOW_MS = 5_000;
const planted = plantedSecrets();

test('planted secrets of every shape are removed from text', () => {
  expect(planted.length).toBeGreaterThan(400);
  expect(new Set(planted.map(({ shape }) => shape)).size).toBeGreaterThan(40);
  const around = (line: string): string =>
    `Nov 24 10:00:00 n1 x[1]: before\n${line}\nNov 24 10:00:01 n1 x[1]: after`;
  const seen = planted.filter(({ line, secret }) => {
    const text = redactText(around(line));
    return text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1));
  });
  expect(seen.map(({ shape, line }) => `${shape}: ${line}`)).toEqual([]);
});

test('planted secrets of every shape are removed from text that has all of them', () => {
  const text = redactText(planted.map(({ line }) => line).join('\n'));
  expect(planted.filter(({ secret }) => text.includes(secret)).map(({ shape }) => shape)).toEqual([]);
});

test('planted secrets of every shape are removed from the strings of JSON', () => {
  const seen = planted.filter(({ line, secret }) => {
    const text = JSON.stringify(redactJson({ items: [{ message: line }] }));
    return text.includes(JSON.stringify(secret).slice(1, -1));
  });
  expect(seen.map(({ shape, line }) => `${shape}: ${line}`)).toEqual([]);
});

test('planted secrets of every shape are removed from text that was made printable', () => {
  const seen = planted.filter(({ line, secret }) => {
    const text = redactText(printable(`reading: ${line}\nafter`));
    return text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1));
  });
  expect(seen.map(({ shape, line }) => `${shape}: ${line}`)).toEqual([]);
});

test.each([1, 2])(
  'planted secrets of one line are removed from a string that is quoted %i times',
  (times) => {
    const seen = planted.filter(({ line, secret }) => {
      let text = line;
      let shown = secret;
      for (let time = 0; time < times; time++) {
        text = JSON.stringify(text);
        shown = JSON.stringify(shown).slice(1, -1);
      }
      const redacted = redactText(`E1124 10:00:00.1 7 a.go:1] "failed" err=${text} pod="a/b"`);
      return !line.includes('\n') && (redacted.includes(secret) || redacted.includes(shown));
    });
    expect(seen.map(({ shape, line }) => `${shape}: ${line}`)).toEqual([]);
  },
);

test.each([
  ['err="{\\"password\\":\\"hunter2\\"}" pod="a/b"', `err="{\\"password\\":\\"${REMOVED}\\"}" pod="a/b"`],
  [
    '{Name:DB_PASSWORD Value:hunter2 ValueFrom:nil} {Name:A Value:b}',
    `{Name:DB_PASSWORD Value:${REMOVED} ValueFrom:nil} {Name:A Value:b}`,
  ],
  ['<password>hunter2</password>', `<password>${REMOVED}</password>`],
  ['curl -u app:hunter2 https://a', `curl -u app:${REMOVED} https://a`],
  ['GET https://hunter2@a.invalid/b', `GET https://${REMOVED}@a.invalid/b`],
  ['login with password hunter2 failed', `login with password ${REMOVED} failed`],
  [
    'Nov 24 10:00:00 n1 x[1]: password:\nNov 24 10:00:00 n1 x[1]:   hunter2\nNov 24 10:00:01 n1 x[1]: user: a',
    `Nov 24 10:00:00 n1 x[1]: password:\nNov 24 10:00:00 n1 x[1]:   ${REMOVED}\nNov 24 10:00:01 n1 x[1]: user: a`,
  ],
  ['passwords:\n- hunter2\n- hunter3\nusers:\n- a', `passwords:\n- ${REMOVED}\n- ${REMOVED}\nusers:\n- a`],
  ['{"name":"DB_PASSWORD","value":"hunter2"}', `{"name":"DB_PASSWORD","value":"${REMOVED}"}`],
  ['{"password":12345,"tokens":3}', `{"password":"${REMOVED}","tokens":3}`],
])('only the secret is removed from %j', (line, want) => {
  expect(redactText(line)).toBe(want);
});

test('text around a secret, and lines without one, stay as they are', () => {
  const lines = [
    'Nov 24 10:00:00 n1 kubelet[7]: secret "web-tls" not found',
    'pulling registry.k8s.io/pause@sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097',
    '{"time":"2026-11-24T10:00:00Z","level":"info","path":"root.roleserve","message":"started","member":"8e9e05c52164694d"}',
    'secretName: web-tls',
    'tokenExpirationSeconds: 3600',
    'GET https://198.18.0.2:6443/readyz: 200',
    'Nov 24 10:00:00 n1 sudo[7]: root : TTY=pts/0 ; PWD=/root/work ; USER=root ; COMMAND=/usr/bin/id',
    'pulled git://git@example.invalid/a.git and docker-pullable://pause@sha256:7031c1b283388d2c2e09b57badb803c0',
    'E1124 10:00:00.123456       7 a.go:1] "Unhandled Error" err="secret \\"web-tls\\" not found" pod="a/b"',
    'sshd[7]: Failed password for root from 198.18.0.9 port 22 ssh2',
    'sshd[7]: password authentication is disabled; the password is required, and the password was changed',
    'tests passed=3 bypass=no compass: north author=ann authority: a.invalid',
    'compaction of key=/registry/pods/a/b took 3ms, key "a" at revision 7',
    'http2: :authority: a.invalid, user-agent: kubelet -u 65534:65534 journalctl -u kubelet.service -n 5',
    '--token-file /run/a --tls-private-key-file=/etc/kubernetes/pki/a.key --authorization-mode=Node,RBAC',
    'workqueue_depth{name="token_cleaner"} 0',
    'tokenFormat=jwt passwordExpiryMs=7 secret:',
    '  secretName: web-tls',
    'client-key: /var/lib/kubelet/pki/kubelet-client-current.pem',
    'password: null',
    'etcd: {"name":"n1","value":"7"} Name:n1 Value:7',
  ];
  expect(redactText(lines.join('\n')).split('\n')).toEqual(lines);
  expect(redactText('a password=hunter22 b')).toBe(`a password=${REMOVED} b`);
});

test.each(['', 'Nov 24 10:00:00 n1 x[1]: ', '2026-11-24T10:00:00.1Z stderr F '])(
  'the end of a PEM key whose begin was cut off is removed, after %j too',
  (prefix) => {
    const secrets = Array.from({ length: 30 }, (_, index) => random(`cut ${index}`, 64, BASE64));
    const key = [...secrets, `${random('last', 20, BASE64)}==`, '-----END RSA PRIVATE KEY-----', 'after'];
    const text = redactText(
      [...key, 'certificate', '-----END CERTIFICATE-----'].map((line) => prefix + line).join('\n'),
    );
    for (const secret of [...secrets, random('last', 20, BASE64)]) expect(text).not.toContain(secret);
    expect(text).toContain(`${prefix}after\n${prefix}certificate`);
  },
);

test('redacting a long line from an attacker takes linear time', () => {
  const MIB = 1024 * 1024;
  const units = [
    ...[
      'password',
      'password=',
      'password="',
      'password=\\"',
      'password:{',
      'password=[',
      'password ',
      'token a1B ',
    ],
    ...[
      '--password',
      '--password ',
      '-u a',
      '-u "a:',
      '--user=',
      'mysql -',
      'mysql ',
      'docker login ',
      '\\',
      '"',
    ],
    ...[
      '<password>',
      '<password',
      '<',
      '&lt;a ',
      'name=password value',
      'name:"password","',
      'value="',
      'value:a name:',
    ],
    ...[
      'name=password\n',
      'password:\n',
      'password: |\n',
      '  a\n',
      'value: \n',
      ' ',
      'a.',
      'a-',
      '://a',
      '://a:',
      '@',
      'eyJaaaaaaaaa',
    ],
    ...[
      '-----BEGIN PRIVATE KEY-----',
      '-----END PRIVATE KEY-----\n',
      '2026-11-24',
      'Nov 24 ',
      'Authorization: a',
      'cookie=',
    ],
    ...['{"a":', '[', '{"password":"'],
  ];
  const lines = [
    'A'.repeat(64).concat('\n').repeat(10_000).concat('-----END PRIVATE KEY-----\n'.repeat(10_000)),
    ...units.map((unit) => unit.repeat(Math.ceil(MIB / unit.length))),
    `password:${' '.repeat(MIB)}a`,
    `name=password${' '.repeat(MIB)}value=`,
  ];
  const slow = lines.filter((line) => {
    const started = process.cpuUsage();
    redactText(line);
    // Processor time: other programs may hold this one up.
    return process.cpuUsage(started).user / 1000 > SLOW_MS;
  });
  expect(slow.map((line) => line.slice(0, 40))).toEqual([]);
});
