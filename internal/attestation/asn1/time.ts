import { Asn1Error } from './errors.ts';
import { TAG } from './tags.ts';
import type { DerElement } from './reader.ts';

/**
 * Parses a time of a certificate or CRL (RFC 5280 §4.1.2.5) to ms since the Unix epoch: UTCTime for the years 1950 to 2049,
 * GeneralizedTime after that, both in seconds and UTC.
 */
export function parseTime(element: DerElement): number {
  const text = Buffer.from(element.content).toString('latin1');
  switch (element.tag) {
    case TAG.utcTime: {
      const year = Number(text.slice(0, 2));
      return zulu(`${year >= 50 ? '19' : '20'}${text}`);
    }
    case TAG.generalizedTime:
      return zulu(text);
    default:
      throw new Asn1Error(`reading time: tag 0x${element.tag.toString(16)} is not a time`);
  }
}

function zulu(text: string): number {
  const match = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (match === null) throw new Asn1Error('reading time: not YYYYMMDDHHMMSSZ');
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  // `Date` turns 31 February into a day of March, so a date that does not exist gives another text than the input.
  if (date.toISOString().replace(/[-:T]|\.000/g, '') !== text) {
    throw new Asn1Error(`reading time: ${text} does not exist`);
  }
  return date.getTime();
}
