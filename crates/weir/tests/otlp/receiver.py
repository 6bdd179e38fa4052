"""An OTLP receiver made of opentelemetry-proto and grpcio: each span that comes is a line of JSON."""

import json
import sys
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services


def pairs(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def tell(request, way, fields):
    for of in request.resource_spans:
        for scope in of.scope_spans:
            for span in scope.spans:
                line = {
                    "way": way,
                    "fields": {name: value for name, value in fields if isinstance(value, str)},
                    "resource": pairs(of.resource.attributes),
                    "scope": scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "name": span.name,
                    "kind": span.kind,
                    "took": span.end_time_unix_nano - span.start_time_unix_nano,
                    "status": span.status.code,
                    "attributes": pairs(span.attributes),
                }
                print(json.dumps(line), flush=True)


class Service(services.TraceServiceServicer):
    def Export(self, request, context):
        tell(request, "grpc", context.invocation_metadata())
        return messages.ExportTraceServiceResponse()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        wrong = self.path != "/v1/traces" or self.headers["Content-Type"] != "application/x-protobuf"
        if not wrong:
            request = messages.ExportTraceServiceRequest.FromString(body)
            tell(request, "http", [(name.lower(), value) for name, value in self.headers.items()])
        self.send_response(404 if wrong else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = grpc.server(futures.ThreadPoolExecutor(2))
services.add_TraceServiceServicer_to_server(Service(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"grpc": port, "http": http.server_address[1]}), flush=True)
http.serve_forever()
sys.exit(0)
