import { expect, test } from '@jest/globals';
import { BASE64, plantedSecrets, random } from './fake-secrets.ts';
import { redactJson, redactText, REMOVED } from './redact.ts';

const planted = plantedSecrets();

test('200 planted secrets of 20 shapes are removed from text', () => {
  expect(planted.length).toBe(200);
  const around = (line: string): string =>
    `Nov 24 10:00:00 n1 x[1]: before\n${line}\nNov 24 10:00:01 n1 x[1]: after`;
  const seen = planted.filter(({ line, secret }) => {
    const text = redactText(around(line));
    return text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1));
  });
  expect(seen.map(({ shape, line }) => `${shape}: ${line}`)).toEqual([]);
});

test('200 planted secrets of 20 shapes are removed from text that has all of them', () => {
  const text = redactText(planted.map(({ line }) => line).join('\n'));
  expect(planted.filter(({ secret }) => text.includes(secret)).map(({ shape }) => shape)).toEqual([]);
});

test('200 planted secrets of 20 shapes are removed from the strings of JSON', () => {
  const seen = planted.filter(({ line, secret }) => {
    const text = JSON.stringify(redactJson({ items: [{ message: line }] }));
    return text.includes(JSON.stringify(secret).slice(1, -1));
  });
  expect(seen.map(({ shape, line }) => `${shape}: ${line}`)).toEqual([]);
});

test('text around a secret, and lines without one, stay as they are', () => {
  const lines = [
    'Nov 24 10:00:00 n1 kubelet[7]: secret "web-tls" not found',
    'pulling registry.k8s.io/pause@sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097',
    '{"time":"2026-11-24T10:00:00Z","level":"info","path":"root.roleserve","message":"started","member":"8e9e05c52164694d"}',
    'secretName: web-tls',
    'tokenExpirationSeconds: 3600',
    'GET https://198.18.0.2:6443/readyz: 200',
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
  const lines = [
    'A'.repeat(64).concat('\n').repeat(10_000).concat('-----END PRIVATE KEY-----\n'.repeat(10_000)),
    'password'.repeat(60_000),
    '://a:'.repeat(100_000),
    'eyJaaaaaaaaa'.repeat(40_000),
    '-----BEGIN PRIVATE KEY-----'.repeat(10_000),
  ];
  const started = performance.now();
  for (const line of lines) redactText(line);
  expect(performance.now() - started).toBeLessThan(5_000);
});
