import { describe, expect, test } from '@jest/globals';
import { formatArguments, openArguments } from './cryptsetup-arguments.ts';

const at = { header: '/run/header', device: '/dev/vdb' };
const format = (isAuthenticated: boolean): string =>
  formatArguments({ ...at, uuid: 'd0d0', isAuthenticated }).join(' ');

describe('formatArguments()', () => {
  test('formatArguments() encrypts with AES-256-XTS in sectors of 4 KiB, with the header outside the disk', () => {
    expect(format(false)).toContain('--cipher aes-xts-plain64 --key-size 512 ');
    expect(format(false)).toContain('--sector-size 4096 ');
    expect(format(false)).toMatch(/--header \/run\/header --key-file - \/dev\/vdb$/);
  });

  test('formatArguments() asks for a tag of each sector only for an authenticated disk', () => {
    expect(format(true)).toContain('--integrity hmac-sha256 ');
    expect(format(false)).not.toContain('--integrity');
  });
});

test('openArguments() opens one slot with the header outside the disk', () => {
  const opened = openArguments({ ...at, slot: 1, name: 'state' }).join(' ');
  expect(opened).toBe('open --type luks2 --header /run/header --key-file - --key-slot 1 /dev/vdb state');
});
