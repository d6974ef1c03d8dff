import { describe, expect, test } from '@jest/globals';
import { describeError } from './index.ts';

const AT = '../deps/openssl/openssl/ssl/record/rec_layer_s3.c:918:SSL alert number 70\n';

describe('describeError() of an OpenSSL error', () => {
  test.each([
    {
      given: `402DAA83877F0000:error:0A00042E:SSL routines:ssl3_read_bytes:tlsv1 alert protocol version:${AT}`,
      want: 'the peer refused it with the TLS alert "protocol version"',
    },
    {
      given: `402DAA83877F0000:error:0A000410:SSL routines:ssl3_read_bytes:sslv3 alert handshake failure:${AT}`,
      want: 'the peer refused it with the TLS alert "handshake failure"',
    },
    {
      given:
        '407D02AE9C7F0000:error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:../x.c:77:\n',
      want: 'the peer does not speak TLS',
    },
    {
      given: `40:error:0A0000C7:SSL routines:f:unsupported protocol:${AT}`,
      want: 'TLS: unsupported protocol',
    },
    { given: 'error:1C800064:Provider routines::bad decrypt', want: 'bad decrypt' },
    { given: 'an error:of somebody', want: 'an error:of somebody' },
  ])('says $want', ({ given, want }) => {
    expect(describeError(new Error('TLS handshake', { cause: new Error(given) }))).toBe(
      `TLS handshake: ${want}`,
    );
  });
});
