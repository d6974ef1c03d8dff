import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { LAYOUT } from './layout.ts';

/**
 * The two copies of a header that cryptsetup 2.6.1 has written with the options of a state disk, with two key slots. The areas of
 * the key slots are left out: the parser does not read them.
 */
const STATE_DISK =
  'H4sIAAAAAAACA+3bT4gbVRwH8CiCZXtosYpd0MvUUmoSmJnMTCYtS7P/2mR3w242ybJ1u5aZ5M1k8m+yeS9JZ9dKpQcVPGiL0KPUg/+62INYaGkpQltKFUpbtYIiYrXIHlR68SLrm3SrsUWkB23F7+cQ8t7Me+/3+2WSQ+A3lhvNHD8VeDDQEQ+seChwl2jRkFXtr6/PHByae1G9+unlDcu/fhXuHfzk401HF+Nsw9rpNd+um1/1xZqfTnweeWwx8fz6udNPvCNs6zm/uPGpn0Pr30oecPckV10jWsyQiaaFZTOvhxUtpoZNXZXDUdWS5JhpxoiqBP6HJi7vuLhkVd843zt+5saRg8HJ0zcO7H9k3fFi70uvJ+2lSwEAAAAAAAAAbkEoE49WXEaFLQuC6L8wr06ELUKlWaayEPKv76bOPJ/SlJBgWLfdIvFbKGs4dcJ3UERRDAlFgxb51Zt/CQh7+aIGMbqWNYw2X+RaFiWMDyNyVNP9XTqHCLKqi4o/JrV8w6szx63xWYPQ8B5Gw/WK4dQ05ba4+BnlQndkdZOP/ej/HEtIcBhpGP6ePFqpEy01Kn4UdJ5q7Z2tbHIym1Wr5ZF0tb9d2N7MJMVqJTdhsYpKiup25mQHcn3CXn6gdC9qJcdEXdLuebH0xDAZTpis6O10rbyeGiA7PNFoZqxkxhwdH9NGplrP5AzblkZ0v1j8ROaWib/NAn9PiV0ltTufuE4G3dlKWjQalbvzLXg1o+rk/dhau1mbGGU+Kf59/pTkmdtYKYEixjQ/poJjE3pnGL+X449vxkznDEmY7Q7en5y9i6KxZrJVKiWs6dZEoTk4PJ8spoIpMRLtb+d0OyVXy0M0TeteflBP9Qm3ovPLMkYnrYzV7B+aG55qO8Fcqd9i0fG6bE6WlKl2Zlrz0gODil7IKjefzLxbsxzbz6hE3dpK0oIky7reldWteUWKKRFR4SvxawgAAAAAAAAAAAAAAAAAAAAAAAAAAHB/y4zmxv6N/v9Z1vohbV9/4PrD333dc+Qb88qrT6aCr21emnnux0Tk2Gfncl/+8nRzZvr75RcubjrUt/Xw2ff2rT1x4crm1elne9798KPV/2z/f/w/+/k195+S973i9W07FF8OXmtsfPztN8+9fPKDw1ff33Up/qi9FU84AAAAAAAA+ND/j/5/9P+j/x/9/wAAAAAAAAAAAAAAAAAAAAAAAAAAAPe/3wAXgk45AIAAAA==';
/** The header of another volume: another UUID, one slot. */
const OTHER_DISK =
  'H4sIAAAAAAACA+3bW4gTVxwG8EFZRMUHESxIUTigPpi4ZyaTmWTRYuxqWbO3ZFlXLV4mkzO7s5NM0jkTk+x28dKWLVXoW1EE8VIogvhUvNJVsVhvDwoWqvigj+K1rNcX7ZntqlEpbR8Ubb/fQ5g5t/n+Z5KXwGnuTHYcHpLGSCMWSKPGSv8S7zGUqPbX/XdPH9nmrSzJk64O3Vzz8/dTZ0zZX36aWydtPLl94W+Tv1bpqcdbv1tzS3e+WbrqZt0Xyyobo8cvr9cTvz5c/nD7rI7NNBM3o0ZUDscNlYZVgzJxRc0wNTRLzsqWZsqy9D80/tb4rpS0d8LRc+5PGXnv3BM7N387fd+WxS0PNv2w49K0vAQAAAAAAAAg9BOHVXmu4HPS0E9o8OFXi4w0kFzJ4QoJBf2rud0nmjQ1RAzrlSGyGMJ9zy4ysYJKKQ2RHoP3iN4//xIgA2KSx4yaaZ5RFpMKlsWZL24jiq7FglVGHkKUaIyqwT1zTa9a9O2CK1oNxsMVn4eLOcN2NfWVXOIZTrY2WTEj7oP0L2cJEdtnnhGsKdLKI2m5kQtSJGlbPh/J6/Xd8TZ7kZdsK5a93nbV6lHMRoelEhXeuozauSanlJpPBgbEE/2Cw4Jl+sU1Z9155r6+iSMV1BYra7quK7L2ot5s1TXythlkW7vaLzPDEY307+vnzPQL3ugWqDSuBZmydjfjr8d4vh0vXvanYsDK2uCjDf94wzpTVqZS1Rza0ptlHVk9Gik3fuwqVqq1fk5nc2NWK1WKhVyvvsROzCfPkol5TUmNJ1ikz2rWtS6ti3vtn7C+JX2mT71FLeUVn5XUSiSSkttXpJuCjQ4Rs+BadndQTS8vuKMFE1lRYrGaip61q3JcjVBVzMSPGwAAAAAAAAAAAAAAAAAAAAAAAAAAAP5TOpKdzW/j/P+Tx8cmhvYvTrfkDx67OG72hfSHR7/85cdhKi8/ED90ffD+V5v4UN2N34fSt8ms4cy8PVcans7e8PmkG5MT56VhlrvzZs//L3hv399Hg/e8u+vuL8zv3pVdWlcfIx+cPDN47Wx4ZmZMmj1q1fANBwAAAAAAgADO/+P8P87/AwAAAAAAAAAAAAAAAAAAAAAAAAAAALz7/gBHqcIxAIAAAA==';

/** A header of cryptsetup. */
export function realHeader(which: 'state' | 'other' = 'state'): Buffer {
  const disk = Buffer.alloc(LAYOUT.headerBytes);
  gunzipSync(Buffer.from(which === 'state' ? STATE_DISK : OTHER_DISK, 'base64')).copy(disk);
  return disk;
}

/** The metadata of the first copy as text. */
export function jsonOf(disk: Buffer): string {
  const area = disk.subarray(LAYOUT.binaryBytes, LAYOUT.copyBytes);
  return area.toString('latin1', 0, area.indexOf(0));
}

/** Writes the metadata into the given copies, with matching checksums, as an attacker can. */
export function writeJson(disk: Buffer, json: string, copies: readonly (0 | 1)[] = [0, 1]): Buffer {
  for (const copy of copies) {
    const area = disk.subarray(copy * LAYOUT.copyBytes + LAYOUT.binaryBytes, (copy + 1) * LAYOUT.copyBytes);
    area.fill(0);
    area.write(json, 'latin1');
  }
  return repairChecksums(disk, copies);
}

/** Computes the checksums of changed copies again. */
export function repairChecksums(disk: Buffer, copies: readonly (0 | 1)[] = [0, 1]): Buffer {
  for (const copy of copies) {
    const bytes = disk.subarray(copy * LAYOUT.copyBytes, (copy + 1) * LAYOUT.copyBytes);
    bytes.fill(0, 448, 512);
    createHash('sha256').update(bytes).digest().copy(bytes, 448);
  }
  return disk;
}
