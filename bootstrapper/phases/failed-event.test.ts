import { describe, expect, test } from '@jest/globals';
import { ExecError } from '../../internal/exec/index.ts';
import { FileError } from '../../internal/file/index.ts';
import { KubernetesError } from '../kubernetes/index.ts';
import { PreflightError } from '../../internal/preflight/index.ts';
import { failedEvent } from './failed-event.ts';

const said = (outputTail: string): KubernetesError =>
  new KubernetesError('kubernetes-image-broken', 'importing image coredns', {
    cause: new ExecError('exec-failed', { argv: ['ctr'], exitCode: 1, outputTail }),
  });

describe('failedEvent()', () => {
  const cases: readonly { name: string; given: unknown; want: string }[] = [
    {
      name: 'the outermost code of an error',
      given: said('unexpected EOF'),
      want: 'kubernetes-image-broken',
    },
    {
      name: 'an error caused by a full disk',
      given: said('write /var/lib/containerd/x: no space left on device'),
      want: 'phases-disk-full',
    },
    {
      name: 'an error caused by a read-only disk',
      given: said('mkdir /x: read-only file system'),
      want: 'phases-read-only',
    },
    {
      name: 'an error caused by a port that is already in use',
      given: said('listen tcp 198.18.0.11:2380: bind: address already in use'),
      want: 'phases-port-in-use',
    },
    {
      name: 'a disk error of a file port',
      given: new FileError('file-no-space', 'writing /x', { cause: new Error('ENOSPC: no space left') }),
      want: 'phases-disk-full',
    },
    {
      name: 'a preflight finding',
      given: new PreflightError('preflight-port', 'port 1: EADDRINUSE'),
      want: 'preflight-port',
    },
    { name: 'an error without a code as internal', given: new Error('x is undefined'), want: 'internal' },
  ];
  test.each(cases)('reports $name', ({ given, want }) => {
    const { code, fix, message, retryable } = failedEvent('images', given);
    expect(code).toBe(want);
    expect([fix, message].every((text) => text.length > 0)).toBe(true);
    expect(retryable).toBe(true);
  });
});
