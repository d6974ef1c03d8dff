import { describe, expect, test } from '@jest/globals';
import { parseChecksum } from './parse-checksum.ts';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);
const URL = 'https://example.org/SHA256SUMS';

describe('parseChecksum()', () => {
  test.each([
    { name: 'a bare hash', text: `${A}\n` },
    { name: 'a bare hash without a newline', text: A },
    { name: 'a line in the format of sha256sum', text: `${A}  runc.amd64\n` },
    { name: 'a line of sha256sum in binary mode', text: `${A} *runc.amd64\n` },
    { name: 'a line that names a path', text: `${A}  ./dist/runc.amd64\n` },
    {
      name: 'one matching line of several lines',
      text: `${B}  runc.arm64\n${A}  runc.amd64\n${B}  runc.amd64.asc\n`,
    },
    { name: 'a hash in upper case', text: A.toUpperCase() },
  ])('parseChecksum() reads $name', ({ text }) => {
    expect(parseChecksum(text, 'runc.amd64', URL)).toBe(A);
  });

  test.each([
    { name: 'an empty checksum file', text: '' },
    { name: 'an HTML page with status 404', text: '<html>Not Found</html>' },
    { name: 'the hash of another file', text: `${A}  runc.arm64\n` },
    { name: 'a file named twice', text: `${A}  runc.amd64\n${B}  runc.amd64\n` },
    { name: 'two bare hashes', text: `${A}\n${B}\n` },
    { name: 'a hash that is too short', text: `${'a'.repeat(63)}  runc.amd64\n` },
    { name: 'a hash that is too long', text: `${'a'.repeat(65)}  runc.amd64\n` },
    { name: 'a file name that only ends with the expected name', text: `${A}  my-runc.amd64\n` },
  ])('parseChecksum() refuses $name', ({ text }) => {
    expect(() => parseChecksum(text, 'runc.amd64', URL)).toThrow(
      expect.objectContaining({ code: 'bundlebuild-checksum-file', message: expect.stringContaining(URL) }),
    );
  });
});
