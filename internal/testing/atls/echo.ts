import { create, createFileRegistry } from '@bufbuild/protobuf';
import type { GenService } from '@bufbuild/protobuf/codegenv2';
import {
  type BytesValueSchema,
  file_google_protobuf_wrappers,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';

/**
 * A service for tests of code that transports any service: one unary method with bytes as request and
 * response.
 */
export type EchoService = GenService<{
  readonly echo: {
    readonly methodKind: 'unary';
    readonly input: typeof BytesValueSchema;
    readonly output: typeof BytesValueSchema;
  };
}>;

/** Created at run time, because internal/ must not import the real services. */
export const Echo: EchoService = createEcho();

function createEcho(): EchoService {
  const file = create(FileDescriptorProtoSchema, {
    name: 'test/echo.proto',
    package: 'test',
    syntax: 'proto3',
    dependency: [file_google_protobuf_wrappers.proto.name],
    service: [
      {
        name: 'Echo',
        method: [
          {
            name: 'Echo',
            inputType: '.google.protobuf.BytesValue',
            outputType: '.google.protobuf.BytesValue',
          },
        ],
      },
    ],
  });
  const service = createFileRegistry(file, () => file_google_protobuf_wrappers).getService('test.Echo');
  if (service === undefined) throw new Error('the echo contract did not build');
  return service as unknown as EchoService;
}
