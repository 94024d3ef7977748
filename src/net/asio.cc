// Asio's implementation, compiled once.
#include <boost/asio/impl/src.hpp>
