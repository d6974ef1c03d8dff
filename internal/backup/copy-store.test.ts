import { describe, expect, test } from '@jest/globals';
import { parseCopyStore, urlOfStore } from './copy-store.ts';

describe('parseCopyStore()', () => {
  const valid = {
    endpoint: 'https://s3.example.org:9000',
    region: 'us-east-1',
    bucket: 'backups',
    prefix: 'blue',
  };
  test.each([
    valid,
    { ...valid, endpoint: 'http://192.0.2.7', prefix: '' },
    { ...valid, endpoint: 'https://[2001:db8::7]:9000', prefix: 'a/b-c_d.e' },
  ])('accepts $endpoint with prefix "$prefix"', (each) => {
    expect(parseCopyStore(each)).toEqual({ store: each });
    expect(new URL(urlOfStore(each)).href.replace(/\/$/, '')).toBe(urlOfStore(each));
  });
  test.each([
    { part: 'endpoint', change: { endpoint: 's3.example.org' } },
    { part: 'endpoint', change: { endpoint: 'ftp://s3.example.org' } },
    { part: 'endpoint', change: { endpoint: 'https://s3.example.org/path' } },
    { part: 'endpoint', change: { endpoint: 'https://user:password@s3.example.org' } },
    { part: 'endpoint', change: { endpoint: 'https://s3.example.org:65536' } },
    { part: 'region', change: { region: 'us/east' } },
    { part: 'bucket', change: { bucket: 'a/b' } },
    { part: 'bucket', change: { bucket: '..' } },
    { part: 'prefix', change: { prefix: '/blue' } },
    { part: 'prefix', change: { prefix: 'blue/' } },
    { part: 'prefix', change: { prefix: 'blue/../red' } },
    { part: 'prefix', change: { prefix: 'a b' } },
    { part: undefined, change: { prefix: 'x'.repeat(300) } },
    { part: 'ca', change: { ca: 'no certificate' } },
    { part: 'ca', change: { ca: `-----BEGIN CERTIFICATE-----${'x'.repeat(6_200)}` } },
  ])('refuses a store with $change', ({ part, change }) => {
    const { problem } = parseCopyStore({ ...valid, ...change });
    expect(problem).toMatch(
      part === undefined ? /^expected at most 256 / : new RegExp(`^${part}: expected [^;]*$`),
    );
  });

  test('refuses an unknown property', () => {
    expect(parseCopyStore({ ...valid, secretAccessKey: 'hunter2' }).problem).toMatch(
      /^(?!.*hunter2).*secretAccessKey/,
    );
  });
});
