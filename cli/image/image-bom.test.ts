import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { imageBom } from './image-bom.ts';

const uki = Buffer.from('an EFI program');
const content = {
  version: '0.1.0',
  uki,
  packages: [{ name: 'libc6', version: '2:1.0-1', sha256: 'a'.repeat(64), sizeBytes: 1 }],
  agentBom: Buffer.from(
    JSON.stringify({
      metadata: { component: { name: 'cluster-agent', version: '0.1.0' } },
      components: [{ name: 'zod', version: '4.0.0', licenses: [{ expression: 'MIT' }] }],
    }),
  ),
};

describe('imageBom()', () => {
  test('names the EFI program, each Debian package with its hash, and the agent with its npm packages', () => {
    const bom: unknown = JSON.parse(imageBom(content));
    expect(bom).toMatchObject({
      specVersion: '1.6',
      metadata: {
        component: {
          name: 'cluster-image',
          hashes: [{ alg: 'SHA-256', content: createHash('sha256').update(uki).digest('hex') }],
        },
      },
      components: [
        {
          purl: 'pkg:deb/debian/libc6@2%3A1.0-1',
          hashes: [{ alg: 'SHA-256', content: 'a'.repeat(64) }],
        },
        {
          name: 'cluster-agent',
          components: [{ purl: 'pkg:npm/zod@4.0.0', licenses: [{ expression: 'MIT' }] }],
        },
      ],
    });
  });

  test('is the same for the same image, and another one for another image', () => {
    expect(imageBom(content)).toBe(imageBom(content));
    const serialOf = (text: string) => (JSON.parse(text) as { readonly serialNumber: string }).serialNumber;
    expect(serialOf(imageBom({ ...content, uki: Buffer.from('another one') }))).not.toBe(
      serialOf(imageBom(content)),
    );
  });

  test.each(['', '{}', '{"metadata": 1, "components": []}'])('refuses the bill %j of an agent', (text) => {
    expect(() => imageBom({ ...content, agentBom: Buffer.from(text) })).toThrow(
      expect.objectContaining({ code: 'image-tree' }),
    );
  });
});
